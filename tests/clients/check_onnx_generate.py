"""Greedy generation from one exported folder by its clients: the text must be the same in all.

    check_onnx_generate.py CLIENT FOLDER --prompt TEXT --tokens N [--node-modules FOLDER]

CLIENT: optimum, genai, openvino, transformers.js, or all. Prints the new token ids of each; fails when they differ.
"""

import argparse
import json
import subprocess
import sys
from pathlib import Path

import numpy as np


def by_optimum(folder, prompt, tokens):
    from optimum.onnxruntime import ORTModelForCausalLM
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = ORTModelForCausalLM.from_pretrained(folder)
    inputs = tokenizer(prompt, return_tensors="pt")
    out = model.generate(**inputs, max_new_tokens=tokens, do_sample=False)
    return out[0, inputs["input_ids"].shape[1]:].tolist()


def by_genai(folder, prompt, tokens):
    import onnxruntime_genai as og

    model = og.Model(folder)
    ids = og.Tokenizer(model).encode(prompt)
    params = og.GeneratorParams(model)
    params.set_search_options(max_length=len(ids) + tokens, do_sample=False)
    generator = og.Generator(model, params)
    generator.append_tokens(ids)
    made = []
    while not generator.is_done() and len(made) < tokens:
        generator.generate_next_token()
        made.append(int(generator.get_next_tokens()[0]))
    return made


def by_openvino(folder, prompt, tokens):
    import openvino as ov
    from transformers import AutoTokenizer

    ids = AutoTokenizer.from_pretrained(folder)(prompt)["input_ids"]
    model = ov.Core().read_model(f"{folder}/onnx/model.onnx")
    compiled = ov.Core().compile_model(model, "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
    request = compiled.create_infer_request()
    eos = json.load(open(f"{folder}/genai_config.json"))["model"]["eos_token_id"]
    names = {i.get_any_name(): i for i in compiled.inputs}
    past = {}
    for name, info in names.items():
        if name.startswith("past_key_values."):
            shape = info.get_partial_shape()
            dims = [1, shape[1].get_length(), 0, shape[3].get_length()]
            past[name] = np.zeros(dims, info.get_element_type().to_dtype())
    made, step, seen = [], ids, 0
    while len(made) < tokens:
        seen += len(step)
        feed = {"input_ids": np.array([step], np.int64), "attention_mask": np.ones((1, seen), np.int64), **past}
        if "position_ids" in names:
            feed["position_ids"] = np.arange(seen - len(step), seen, dtype=np.int64)[None]
        out = request.infer(feed)
        result = {o.get_any_name(): out[o] for o in compiled.outputs}
        past = {n: result[n.replace("past_key_values", "present")].copy() for n in past}
        made.append(int(result["logits"][0, -1].argmax()))
        step = made[-1:]
        if made[-1] in eos:
            break
    return made


def by_transformers_js(folder, prompt, tokens, modules):
    script = Path(__file__).with_name("check_onnx_generate.mjs")
    command = ["node", str(script), modules, folder, prompt, str(tokens)]
    out = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return [int(word) for word in out.strip().splitlines()[-1].split()]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("client", choices=["optimum", "genai", "openvino", "transformers.js", "all"])
    parser.add_argument("folder")
    parser.add_argument("--prompt", required=True)
    parser.add_argument("--tokens", type=int, default=20)
    parser.add_argument("--node-modules", default="")
    a = parser.parse_args()
    runs = {
        "optimum": lambda: by_optimum(a.folder, a.prompt, a.tokens),
        "genai": lambda: by_genai(a.folder, a.prompt, a.tokens),
        "openvino": lambda: by_openvino(a.folder, a.prompt, a.tokens),
        "transformers.js": lambda: by_transformers_js(a.folder, a.prompt, a.tokens, a.node_modules),
    }
    if a.client == "all" and not Path(a.node_modules).is_dir():
        print("transformers.js: not run, no", a.node_modules)
        del runs["transformers.js"]
    made = {name: run() for name, run in runs.items() if a.client in (name, "all")}
    for name, ids in made.items():
        print(f"{name}:", *ids)
    first = next(iter(made.values()))
    return 0 if first and all(ids == first for ids in made.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
