"""Exports golden models by other programs, and has them read back.

    check_onnx_import.py optimum|genai ONNX_FILES MODELS NAME...
"""

import subprocess
import sys
import tempfile


def by_optimum(model, out):
    from optimum.exporters.onnx import main_export

    main_export(model, output=out, task="text-generation-with-past", do_validation=False)


def by_genai(model, out):
    from onnxruntime_genai.models.builder import create_model

    create_model("", model, out, "fp32", "cpu", tempfile.mkdtemp())


def main():
    exporter, onnx_files, models, *names = sys.argv[1:]
    bad = 0
    for name in names:
        with tempfile.TemporaryDirectory() as out:
            {"optimum": by_optimum, "genai": by_genai}[exporter](f"{models}/{name}", out)
            bad += subprocess.run([onnx_files, "read", out, name], check=False).returncode != 0
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
