"""Exports golden models by other programs, and has them read back.

    check_onnx_import.py optimum|genai ONNX_FILES MODELS NAME...
"""

import json
import shutil
import subprocess
import sys
import tempfile


def by_optimum(model, out):
    from optimum.exporters.onnx import main_export

    main_export(model, output=out, task="text-generation-with-past", do_validation=False)


def by_genai(model, out):
    from tokenizers import Tokenizer, models

    with tempfile.TemporaryDirectory() as scratch:
        source = f"{scratch}/model"  # the builder wants a tokenizer beside the weights
        shutil.copytree(model, source)
        vocabulary = {f"<{i}>": i for i in range(64)}
        Tokenizer(models.WordLevel(vocabulary, unk_token="<0>")).save(f"{source}/tokenizer.json")
        with open(f"{source}/tokenizer_config.json", "w") as config:
            json.dump({"tokenizer_class": "PreTrainedTokenizerFast"}, config)
        builder = [sys.executable, "-m", "onnxruntime_genai.models.builder", "-p", "fp32", "-e", "cpu"]
        subprocess.run([*builder, "-i", source, "-o", out, "-c", f"{scratch}/cache"], check=True)


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
