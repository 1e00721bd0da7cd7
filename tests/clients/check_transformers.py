#!/usr/bin/env python3
"""Loads folders that pastkv wrote with transformers, and holds their logits and token ids to the references'.

    check_transformers.py golden OUT DATA      what write_files made of the golden models; DATA: tests/data/models
    check_transformers.py published OUT        what write_files made of a published model: folder against its GGUF

Needs requirements-transformers.txt.
"""

import json
import sys
from pathlib import Path

import torch
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM, AutoTokenizer
from transformers.utils import logging

TEXTS = ["Hello world", " leading space", "a\n\nb\tc  d", "3333+777 = 4110", "don't STOP", "naïve café — 東京 🙂",
         "<|im_start|>user\nHi<|im_end|>", "", "def f(x):\n    return x ** 2\n"]


def check_golden(out, data):
    failed = 0
    for folder in sorted(path for path in out.iterdir() if path.is_dir()):
        name = folder.name.removesuffix(".back")
        config = json.loads((folder / "config.json").read_text())
        if config["model_type"] == "openelm":  # its code is not part of transformers
            continue
        golden = load_file(data / f"{name}.golden.safetensors")
        model = AutoModelForCausalLM.from_pretrained(folder, torch_dtype=torch.float32, attn_implementation="eager")
        with torch.no_grad():
            logits = model.eval()(golden["ids"][None], use_cache=False).logits[0]
        difference = ((logits - golden["logits"]).abs().max() / golden["logits"].std()).item()
        # A scale that the reference rounds to the type of the weights is not rounded when they are loaded as f32.
        right = difference < (1e-4 if config["torch_dtype"] == "float32" else 1e-3)
        failed += not right
        print(f"{'ok  ' if right else 'FAIL'} {folder.name:24} {difference:.1e}")
    return failed


def check_published(out):
    """The tokenizer against the one that transformers itself rebuilds from the GGUF, and a greedy answer."""
    folder = AutoTokenizer.from_pretrained(out / "model")
    reference = AutoTokenizer.from_pretrained(out, gguf_file="model.gguf")
    failed = 0
    for text in TEXTS:
        # transformers adds a BOS to every tokenizer that it takes from a GGUF.
        ids, wanted = (side(text, add_special_tokens=False)["input_ids"] for side in (folder, reference))
        if ids != wanted or folder.decode(ids) != reference.decode(wanted):
            print(f"FAIL {text!r}: {ids}, wanted {wanted}")
            failed += 1
    model = AutoModelForCausalLM.from_pretrained(out / "model", torch_dtype=torch.float32).eval()
    wanted = AutoModelForCausalLM.from_pretrained(out, gguf_file="model.gguf", torch_dtype=torch.float32).eval()
    ids = folder("The capital of France is", return_tensors="pt")["input_ids"]
    with torch.no_grad():
        got, reference_logits = model(ids).logits, wanted(ids).logits
    difference = ((got - reference_logits).abs().max() / reference_logits.std()).item()
    failed += difference >= 2e-2  # what f16 makes of numbers from blocks
    print(f"logits against transformers' own reading of the GGUF: {difference:.1e}")
    print(folder.decode(model.generate(ids, max_new_tokens=12, do_sample=False)[0]))
    return failed


def main():
    logging.set_verbosity_error()
    torch.set_num_threads(1)
    out = Path(sys.argv[2])
    failed = check_golden(out, Path(sys.argv[3])) if sys.argv[1] == "golden" else check_published(out)
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
