#!/usr/bin/env python3
"""Writes tests/data/codec/: what the reference implementations make of each element type.

Needs gguf==0.19.0, numpy==2.4.6, torch==2.15.0 (for the two fp8 kinds). Run from anywhere; the files are reproduced
exactly.

  <type>.row, <type>.f32              bytes of one row, and the floats they stand for
  encode.f32, <type>.encoded          one row of floats, and its bytes in each type that is written
"""

from pathlib import Path

import gguf
import numpy as np
import torch
from gguf import GGMLQuantizationType as Q

OUT = Path(__file__).resolve().parent.parent / "data" / "codec"
BLOCKS_OF_32 = [Q.Q4_0, Q.Q4_1, Q.Q5_0, Q.Q5_1, Q.Q8_0, Q.IQ4_NL]
BLOCKS_OF_256 = [Q.Q2_K, Q.Q3_K, Q.Q4_K, Q.Q5_K, Q.Q6_K]
# Where each block keeps its f16 scales: random bits there would be NaN now and then.
F16_AT = {
    Q.Q4_0: [0], Q.Q4_1: [0, 2], Q.Q5_0: [0], Q.Q5_1: [0, 2], Q.Q8_0: [0], Q.IQ4_NL: [0],
    Q.Q2_K: [80, 82], Q.Q3_K: [108], Q.Q4_K: [0, 2], Q.Q5_K: [0, 2], Q.Q6_K: [208],
}


def write(name, array):
    (OUT / name).write_bytes(np.ascontiguousarray(array).tobytes())


def decode_golden(rng):
    for kind in BLOCKS_OF_32 + BLOCKS_OF_256:
        elements, size = gguf.GGML_QUANT_SIZES[kind]
        blocks = rng.integers(0, 256, (1024 // elements, size), dtype=np.uint8)
        for at in F16_AT[kind]:
            scales = rng.normal(0, 0.05, (len(blocks), 1)).astype(np.float16)
            blocks[:, at : at + 2] = scales.view(np.uint8)
        row = blocks.reshape(1, -1)
        write(f"{kind.name.lower()}.row", row)
        write(f"{kind.name.lower()}.f32", gguf.dequantize(row, kind).astype(np.float32))


def number_golden(rng):
    every = np.arange(256, dtype=np.uint8)
    for name, kind in (("f8_e4m3", torch.float8_e4m3fn), ("f8_e5m2", torch.float8_e5m2)):
        write(f"{name}.row", every)
        write(f"{name}.f32", torch.from_numpy(every.copy()).view(kind).to(torch.float32).numpy())
    wide = rng.normal(0, 3, 64).astype(np.float64)
    wide[:4] = [1e300, -1e300, 1e-300, 0.1]
    with np.errstate(over="ignore"):
        write("f64.f32", wide.astype(np.float32))
    write("f64.row", wide)
    halves = rng.integers(0, 65536, 256, dtype=np.uint16)
    halves = halves[(halves & 0x7C00) != 0x7C00][:192]
    write("f16.row", halves)
    write("f16.f32", halves.view(np.float16).astype(np.float32))
    write("bf16.row", halves)
    write("bf16.f32", gguf.dequantize(halves.view(np.uint8).reshape(1, -1), Q.BF16))


def encode_golden(rng):
    blocks = rng.normal(0, 1, (40, 32)).astype(np.float32) * rng.choice([1e-3, 0.02, 1, 50], (40, 1)).astype(np.float32)
    blocks[0] = 0
    blocks[1] = 0.25
    blocks[2] = -3
    blocks[3] = np.arange(32) - 16  # levels that are exact
    blocks[4] = np.abs(blocks[4])
    blocks[5] = -np.abs(blocks[5])
    blocks[6] = np.tile(np.float32([2, -2, 0.5, -0.5]), 8)  # equal extremes of both signs
    blocks[7] = np.linspace(-1, 1, 32)
    blocks[8, :] = 0
    blocks[8, 31] = 1e-3
    blocks[9] = blocks[9].astype(np.float16)
    row = blocks.reshape(1, -1).astype(np.float32)
    write("encode.f32", row)
    for kind in (Q.Q8_0, Q.Q4_0, Q.Q4_1, Q.Q5_0, Q.Q5_1, Q.F16, Q.BF16):
        write(f"{kind.name.lower()}.encoded", gguf.quantize(row, kind))


def main():
    OUT.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(20)
    decode_golden(rng)
    number_golden(rng)
    encode_golden(rng)


if __name__ == "__main__":
    main()
