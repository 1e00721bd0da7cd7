#!/usr/bin/env python3
"""Conversions by pastkv: time and peak resident memory, on a published model or on a made one of 7B parameters.

    benchmarks/compare_convert.py --model models/SmolLM2-135M-Instruct.F16.gguf --update docs/benchmarks.md
    benchmarks/compare_convert.py --made-7b build/made_7b --update docs/benchmarks.md

The made model is a Llama folder of random bf16 weights in shards, 14 GB, written a stretch at a time and removed at the
end. Each conversion runs with --no-verify, and its output is removed before the next. With --optimum, the python of an
environment that has optimum-onnx, that converts a Hugging Face folder (--folder) too; without it the table says so.
"""

import argparse
import json
import os
import pathlib
import shutil
import struct
import time

import common

MEGABYTE = 1_000_000
CONVERSIONS = {
    "gguf": ["--to", "gguf"],
    "gguf q8_0": ["--to", "gguf", "--dtype", "q8_0"],
    "hf f16": ["--to", "hf", "--dtype", "f16"],
    "onnx fp16": ["--to", "onnx", "--precision", "fp16"],
    "coreml fp16": ["--to", "coreml"],
}
OPTIMUM = """
import sys
from optimum.exporters.onnx import main_export
main_export(sys.argv[1], sys.argv[2], task="text-generation-with-past", do_validation=False)
"""


def shapes_of_7b():
    hidden, layers, inner, vocab = 4096, 32, 11008, 32000
    yield "model.embed_tokens.weight", (vocab, hidden)
    for i in range(layers):
        at = f"model.layers.{i}."
        for name in ("q", "k", "v", "o"):
            yield f"{at}self_attn.{name}_proj.weight", (hidden, hidden)
        for name in ("gate", "up"):
            yield f"{at}mlp.{name}_proj.weight", (inner, hidden)
        yield f"{at}mlp.down_proj.weight", (hidden, inner)
        for name in ("input_layernorm", "post_attention_layernorm"):
            yield f"{at}{name}.weight", (hidden,)
    yield "model.norm.weight", (hidden,)
    yield "lm_head.weight", (vocab, hidden)


def random_bf16(count):
    """Small numbers of either sign: a random mantissa below an exponent of 2^-6."""
    low = os.urandom(count)
    high = bytes(0x3C | (byte & 0x80) for byte in os.urandom(count))
    out = bytearray(2 * count)
    out[0::2], out[1::2] = low, high
    return bytes(out)


def make_7b(folder):
    folder.mkdir(parents=True)
    config = {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 4096,
              "intermediate_size": 11008, "num_hidden_layers": 32, "num_attention_heads": 32,
              "num_key_value_heads": 32, "max_position_embeddings": 4096, "vocab_size": 32000,
              "rms_norm_eps": 1e-5, "rope_theta": 10000.0, "hidden_act": "silu", "tie_word_embeddings": False,
              "torch_dtype": "bfloat16", "eos_token_id": 2, "bos_token_id": 1}
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
    shards, room = [[]], 4_000_000_000
    for name, shape in shapes_of_7b():
        size = 2 * shape[0] * (shape[1] if len(shape) > 1 else 1)
        if room < size:
            shards.append([])
            room = 4_000_000_000
        shards[-1].append((name, shape, size))
        room -= size
    stretch = random_bf16(1 << 20)
    index = {"metadata": {}, "weight_map": {}}
    for number, tensors in enumerate(shards, 1):
        file = f"model-{number:05}-of-{len(shards):05}.safetensors"
        header, at = {}, 0
        for name, shape, size in tensors:
            header[name] = {"dtype": "BF16", "shape": list(shape), "data_offsets": [at, at + size]}
            index["weight_map"][name] = file
            at += size
        text = json.dumps(header).encode()
        text += b" " * (-len(text) % 8)
        with open(folder / file, "wb") as out:
            out.write(struct.pack("<Q", len(text)) + text)
            for _, _, size in tensors:
                for begin in range(0, size, len(stretch)):
                    out.write(stretch[:size - begin])
    (folder / "model.safetensors.index.json").write_text(json.dumps(index), encoding="utf-8")


def size_of(path):
    if path.is_file():
        return path.stat().st_size
    return sum(file.stat().st_size for file in path.rglob("*") if file.is_file())


def remove(path):
    for place in (path, pathlib.Path(f"{path}.pastkv.json")):
        if place.is_dir():
            shutil.rmtree(place)
        else:
            place.unlink(missing_ok=True)


def timed(command, out):
    remove(out)
    begin = time.monotonic()
    peak = common.run(command)[2]
    seconds = time.monotonic() - begin
    size = size_of(out)
    remove(out)
    return seconds, peak, size


def rows_of(model, out_folder, options):
    for name in options.only or CONVERSIONS:
        out = out_folder / ("converted.gguf" if name.startswith("gguf") else "converted")
        yield f"pastkv {name}", timed([options.pastkv, "convert", model, *CONVERSIONS[name], "-o", out, "--no-verify",
                                       "--quiet"], out)


def peer_rows(options, out_folder):
    if options.optimum and options.folder:
        out = out_folder / "peer"
        yield "optimum-onnx fp32", timed([options.optimum, "-c", OPTIMUM, options.folder, out], out)
    else:
        yield "optimum-onnx: not run (give --optimum and --folder)", None


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pastkv", help="the program (default: that of the preset release)")
    parser.add_argument("--model", type=pathlib.Path, help="what is converted")
    parser.add_argument("--made-7b", type=pathlib.Path, help="make a 7B model here, convert it, remove it")
    parser.add_argument("--only", action="append", choices=list(CONVERSIONS))
    parser.add_argument("--optimum", help="python of an environment with optimum-onnx")
    parser.add_argument("--folder", type=pathlib.Path, help="the Hugging Face folder that the peer converts")
    parser.add_argument("--scratch", type=pathlib.Path, default=common.ROOT / "build/convert_benchmark")
    parser.add_argument("--update", help="Markdown page whose section `convert` the table replaces")
    options = parser.parse_args()
    options.pastkv = common.find_pastkv(options.pastkv)
    if (options.model is None) == (options.made_7b is None):
        raise SystemExit("give one of --model and --made-7b")
    options.scratch.mkdir(parents=True, exist_ok=True)
    model = options.model
    if options.made_7b:
        free = shutil.disk_usage(options.scratch).free
        if free < 32_000_000_000:
            raise SystemExit(f"{options.scratch}: {free / 1e9:.0f} GB are free, wanted are 32")
        model = options.made_7b
        make_7b(model)
    try:
        lines = ["| conversion | seconds | peak memory | output |", "|---|---|---|---|"]
        rows = list(rows_of(model, options.scratch, options))
        if not options.made_7b:
            rows += peer_rows(options, options.scratch)
        for name, got in rows:
            cells = [f"{got[0]:.1f}", f"{got[1] / MEGABYTE:.0f} MB", f"{got[2] / MEGABYTE:.0f} MB"] if got else ["", "", ""]
            lines.append("| " + " | ".join([name, *cells]) + " |")
            print(lines[-1], flush=True)
    finally:
        if options.made_7b:
            shutil.rmtree(model)
    what = "a made Llama of 6.7 G parameters, bf16" if options.made_7b else model.name
    text = common.heading(options.pastkv, []) + f" Converted is {what}.\n\n" + "\n".join(lines)
    if options.update:
        common.replace_section(options.update, "convert", text)


if __name__ == "__main__":
    main()
