#!/usr/bin/env python3
"""Runs llama.cpp on GGUF files that pastkv wrote.

    check_llama_cpp.py LLAMA_COMPLETION PUBLISHED COPY BACK

COPY, the published model as stored, must answer word for word as PUBLISHED does. BACK, the same by way of a folder
with plain numbers, must begin its answers as PUBLISHED does: its matrices are multiplied otherwise.
"""

import subprocess
import sys

PROMPTS = ["The capital of France is", "Once upon a time, 3333+777 dogs", "naïve café\n\n\tdef f(x):"]


def answer(program, model, prompt):
    command = [program, "-m", model, "-p", prompt, "-n", "24", "--temp", "0", "-no-cnv", "-t", "2", "--no-warmup"]
    run = subprocess.run(command, capture_output=True, text=True, timeout=600, stdin=subprocess.DEVNULL)
    if run.returncode != 0:
        print(run.stderr[-2000:])
        sys.exit(f"{model}: llama.cpp ended with {run.returncode}")
    return run.stdout


def main():
    program, published, copy, back = sys.argv[1:]
    failed = 0
    for prompt in PROMPTS:
        wanted = answer(program, published, prompt)
        answers = answer(program, copy, prompt), answer(program, back, prompt)
        begins = prompt + " ".join(wanted[len(prompt):].split(" ")[:2])
        for model, got, right in ((copy, answers[0], answers[0] == wanted), (back, answers[1], begins in answers[1])):
            failed += not right
            print(f"{'ok  ' if right else 'FAIL'} {model}: {got!r}")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
