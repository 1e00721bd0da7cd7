#!/usr/bin/env python3
"""Writes tests/data/formats/: small files by the reference writers of each container, and what they hold.

Needs gguf==0.19.0, huggingface_hub==0.36.2, numpy==2.4.6, safetensors==0.8.0, torch==2.15.0. Run from anywhere; the
files are reproduced exactly.

  every.gguf, every.gguf.json          every kind of metadata value, and tensors of several types, alignment 64
  split-0000?-of-00003.gguf            one model in three parts
  every.safetensors, ....json          every dtype, a scalar and empty tensors
  sharded/                             a folder with an index and three shards
"""

import json
import shutil
from pathlib import Path

import gguf
import numpy as np
import torch
from gguf import GGMLQuantizationType as Q
from huggingface_hub import save_torch_state_dict
from safetensors.torch import save_file

OUT = Path(__file__).resolve().parent.parent / "data" / "formats"


def listing(tensors):
    return {name: {"dtype": dtype, "shape": shape, "hex": data.hex()} for name, dtype, shape, data in tensors}


def write_json(name, value):
    (OUT / name).write_text(json.dumps(value, indent=1) + "\n")


def every_gguf(rng):
    path = OUT / "every.gguf"
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_custom_alignment(64)
    writer.add_uint8("t.u8", 200)
    writer.add_int8("t.i8", -100)
    writer.add_uint16("t.u16", 60000)
    writer.add_int16("t.i16", -30000)
    writer.add_uint32("t.u32", 4000000000)
    writer.add_int32("t.i32", -2000000000)
    writer.add_float32("t.f32", 0.1)
    writer.add_uint64("t.u64", 2**64 - 1)
    writer.add_int64("t.i64", -(2**63))
    writer.add_float64("t.f64", 0.1)
    writer.add_bool("t.true", True)
    writer.add_bool("t.false", False)
    writer.add_string("t.text", "a\u2581\u00e9")
    writer.add_array("t.ints", [1, -2, 3])
    writer.add_array("t.floats", [0.5, -1.5])
    writer.add_array("t.bools", [True, False, True])
    writer.add_array("t.texts", ["<s>", "", "\u2581the"])
    writer.add_array("t.bytes", b"\x01\xff\x02")
    tensors = []
    for name, kind, shape in (
        ("scale", Q.F32, (3,)), ("half", Q.F16, (2, 5)), ("brain", Q.BF16, (4,)), ("ids", Q.I32, (2, 2)),
        ("four", Q.Q4_0, (2, 64)), ("eight", Q.Q8_0, (3, 2, 32)), ("k", Q.Q4_K, (1, 256)),
    ):
        elements, size = gguf.GGML_QUANT_SIZES[kind]
        row = (*shape[:-1], shape[-1] // elements * size)
        data = rng.integers(0, 256, row, dtype=np.uint8)
        writer.add_tensor(name, data, raw_shape=row, raw_dtype=kind)
        spelling = {"F32": "f32", "I32": "int32"}.get(kind.name, kind.name.lower())
        tensors.append((name, spelling, list(shape), data.tobytes()))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    write_json("every.gguf.json", listing(tensors))


def split_gguf():
    writer = gguf.GGUFWriter(OUT / "split.gguf", "llama", split_max_tensors=2)
    writer.add_uint32("llama.block_count", 7)
    for i in range(5):
        writer.add_tensor(f"t{i}", np.full((2, 3), i, dtype=np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def every_safetensors():
    tensors = {}
    spellings = []
    for dtype, spelling in (
        (torch.float64, "f64"), (torch.float32, "f32"), (torch.float16, "f16"), (torch.bfloat16, "bf16"),
        (torch.int64, "int64"), (torch.int32, "int32"), (torch.int16, "int16"), (torch.int8, "int8"),
        (torch.uint64, "uint64"), (torch.uint32, "uint32"), (torch.uint16, "uint16"), (torch.uint8, "uint8"),
        (torch.bool, "bool"), (torch.float8_e4m3fn, "f8_e4m3"), (torch.float8_e5m2, "f8_e5m2"),
    ):
        tensors[spelling] = (torch.arange(6, dtype=torch.float32).reshape(2, 3) % 4).to(dtype)
        spellings.append((spelling, spelling))
    tensors["scalar"] = torch.tensor(2.5)
    tensors["empty"] = torch.zeros(0)
    tensors["empty_middle"] = torch.zeros(3, 0, 7, dtype=torch.float16)
    spellings += [("scalar", "f32"), ("empty", "f32"), ("empty_middle", "f16")]
    save_file(tensors, OUT / "every.safetensors", metadata={"format": "pt"})
    write_json("every.safetensors.json", listing(
        (name, spelling, list(tensors[name].shape), bytes(tensors[name].flatten().view(torch.uint8).numpy()))
        if tensors[name].dim() > 0
        else (name, spelling, [], tensors[name].numpy().tobytes())
        for name, spelling in spellings
    ))


def sharded():
    folder = OUT / "sharded"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    state = {f"model.layers.{i}.weight": torch.full((4, 4), float(i), dtype=torch.bfloat16) for i in range(6)}
    save_torch_state_dict(state, folder, max_shard_size=64)
    (folder / "config.json").write_text(json.dumps({"model_type": "llama", "num_hidden_layers": 6}) + "\n")


def main():
    OUT.mkdir(parents=True, exist_ok=True)
    every_gguf(np.random.default_rng(7))
    split_gguf()
    every_safetensors()
    sharded()


if __name__ == "__main__":
    main()
