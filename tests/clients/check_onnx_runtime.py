"""Runs exported decoders in ONNX Runtime and compares their logits with golden ones.

    check_onnx_runtime.py --tolerance 1e-4 WRITTEN MODELS

WRITTEN holds a folder for each golden model of MODELS. For each: onnx.checker, prefill, cached steps, chunks, a batch padded on the left, num_logits_to_keep.
A difference is the largest one over the standard deviation of the golden logits.
"""

import argparse
import sys
from pathlib import Path

import numpy as np
import onnx
import onnxruntime as ort
from safetensors.numpy import load_file


class Decoder:
    def __init__(self, folder):
        path = f"{folder}/onnx/model.onnx"
        onnx.checker.check_model(path, full_check=True)
        options = ort.SessionOptions()
        options.log_severity_level = 3
        self.session = ort.InferenceSession(path, options, providers=["CPUExecutionProvider"])
        self.names = {i.name: i for i in self.session.get_inputs()}
        self.states = [i for i in self.session.get_inputs() if i.name.startswith("past_key_values.")]
        self.outputs = [o.name for o in self.session.get_outputs()]
        self.reset(1)

    def reset(self, batch):
        kinds = {"tensor(float)": np.float32, "tensor(float16)": np.float16}
        self.past = [np.zeros((batch, s.shape[1], 0, s.shape[3]), kinds[s.type]) for s in self.states]

    def run(self, ids, mask, extra=None):
        ids = np.asarray(ids, np.int64)
        mask = np.asarray(mask, np.int64)
        feed = {"input_ids": ids, "attention_mask": mask, **(extra or {})}
        if "position_ids" in self.names:
            positions = np.cumsum(mask, -1) - 1
            positions[mask == 0] = 1
            feed["position_ids"] = positions[:, -ids.shape[1]:]
        feed.update({s.name: p for s, p in zip(self.states, self.past)})
        logits, *self.past = self.session.run(None, feed)
        return logits.astype(np.float32)

    def extend(self, ids):
        seen = self.past[0].shape[2] if self.past else 0
        return self.run([ids], np.ones((1, seen + len(ids))))[0]


def difference(got, wanted):
    if got.shape != wanted.shape or not np.isfinite(got).all():
        return float("inf")
    return float(np.abs(got - wanted).max() / wanted.std())


def check(folder, golden):
    decoder = Decoder(folder)
    ids = golden["ids"].tolist()
    prefill = int(golden["prefill"][0])
    from_scratch = bool(golden["from_scratch"][0])
    vocab = golden["logits"].size // len(ids)
    logits = golden["logits"].reshape(-1, vocab)
    steps = golden["step_logits"].reshape(-1, vocab)
    found = {}

    whole = decoder.extend(ids)
    found["prefill"] = difference(whole[-1:] if from_scratch else whole, logits[-1:] if from_scratch else logits)

    worst = 0.0
    decoder.reset(1)
    if not from_scratch:
        decoder.extend(ids[:prefill])
    for i, wanted in enumerate(steps):
        if from_scratch:
            decoder.reset(1)
        got = decoder.extend(ids[: prefill + i + 1] if from_scratch else [ids[prefill + i]])
        worst = max(worst, difference(got[-1], wanted))
    found["steps"] = worst

    if not from_scratch:
        decoder.reset(1)
        chunks = [decoder.extend(ids[i : i + 5]) for i in range(0, len(ids), 5)]
        found["chunks"] = difference(np.concatenate(chunks), logits)

        decoder.reset(1)
        last = decoder.run([ids], np.ones((1, len(ids))), {"num_logits_to_keep": np.array(1, np.int64)})
        found["last row only"] = difference(last[0], logits[-1:])

        # Row 1 is shorter by 3, and what stands in the padding must not matter.
        n = len(ids) - 4
        for filler in (0, 7):
            decoder.reset(2)
            mask = np.ones((2, n), np.int64)
            mask[1, :3] = 0
            got = decoder.run([ids[:n], [filler] * 3 + ids[: n - 3]], mask)
            worst = max(difference(got[0], logits[:n]), difference(got[1, 3:], logits[: n - 3]))
            for i in range(3):
                mask = np.concatenate([mask, np.ones((2, 1), np.int64)], 1)
                got = decoder.run([[ids[n + i]], [ids[n - 3 + i]]], mask)
                worst = max(worst, difference(got[0], logits[n + i : n + i + 1]))
                worst = max(worst, difference(got[1], logits[n - 3 + i : n - 2 + i]))
            found[f"batch padded with {filler}"] = worst
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tolerance", type=float, required=True)
    parser.add_argument("written")
    parser.add_argument("models")
    arguments = parser.parse_args()
    bad = count = 0
    for folder in sorted(Path(arguments.written).iterdir()):
        golden = Path(arguments.models) / f"{folder.name.removesuffix('.gguf')}.golden.safetensors"
        count += 1
        try:
            found = check(str(folder), load_file(golden))
        except Exception as error:  # a client that refuses the file is a result, not an accident
            print(f"FAILED {folder.name}: {str(error)[:300]}")
            bad += 1
            continue
        failed = any(not d <= arguments.tolerance for d in found.values())
        bad += failed
        print("FAILED" if failed else "ok", folder.name, " ".join(f"{w}={d:.1e}" for w, d in found.items()))
    return 1 if bad or not count else 0


if __name__ == "__main__":
    sys.exit(main())
