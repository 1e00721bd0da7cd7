#!/usr/bin/env python3
"""Measures the quantizers of llama.cpp on the numbers that tests/tensor/super_block_test.cc makes, for its table.

Needs numpy, gguf==0.19.0 and a build of llama.cpp (b11434): the folder that holds libggml-base.so.

    python tests/tools/measure_encoders.py DIR

Prints for each type the root mean square of the error over that of the numbers, plain and with each element weighted
by its magnitude.
"""

import ctypes
import sys

import gguf
import numpy as np

TYPES = {"q2_k": 10, "q3_k": 11, "q4_k": 12, "q5_k": 13, "q6_k": 14}
COUNT = 256 * 64


def numbers():
    """As the test makes them: a sum of 12 uniform numbers, of a spread that changes from group to group."""
    state = 12345
    out = np.empty(COUNT, dtype=np.float32)
    for i in range(COUNT):
        total = 0.0
        for _ in range(12):
            state = (state * 1664525 + 1013904223) % 2**32
            total += (state >> 8) / 2**24
        out[i] = (total - 6.0) * (0.5 + (i // 16 % 7) * 0.25)
    return out


def main():
    library = ctypes.CDLL(sys.argv[1] + "/libggml-base.so")
    library.ggml_quantize_chunk.restype = ctypes.c_size_t
    source = numbers()
    for name, number in TYPES.items():
        size = gguf.GGML_QUANT_SIZES[gguf.GGMLQuantizationType(number)]
        packed = np.empty(COUNT // size[0] * size[1], dtype=np.uint8)
        library.ggml_quantize_chunk(number, source.ctypes.data_as(ctypes.c_void_p),
                                    packed.ctypes.data_as(ctypes.c_void_p), ctypes.c_int64(0), ctypes.c_int64(1),
                                    ctypes.c_int64(COUNT), None)
        back = gguf.dequantize(packed, gguf.GGMLQuantizationType(number))
        error = (back - source).astype(np.float64)
        plain = np.sqrt(np.mean(error**2) / np.mean(source.astype(np.float64) ** 2))
        weights = np.abs(source).astype(np.float64)
        weighted = np.sqrt(np.sum(weights * error**2) / np.sum(weights * source.astype(np.float64) ** 2))
        print(f"{name} {plain:.6f} {weighted:.6f}")


if __name__ == "__main__":
    main()
