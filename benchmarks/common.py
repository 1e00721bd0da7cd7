"""What the benchmark scripts share: running a program and watching its memory, host facts, models, report sections."""

import datetime
import os
import pathlib
import platform
import subprocess
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
SMOLLM2 = "SmolLM2-135M-Instruct.Q4_1.gguf"
GEMMA3 = "gemma-3-270m-q4_k_m.gguf"


def run(command):
    """Runs `command`. Returns (stdout, stderr, peak resident bytes); exits with its last lines when it fails."""
    command = [str(part) for part in command]
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as err:
        process = subprocess.Popen(command, stdout=out, stderr=err, stdin=subprocess.DEVNULL)
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        out.seek(0)
        err.seek(0)
        stdout, stderr = out.read(), err.read()
    if process.returncode != 0:
        last_lines = "\n".join(stderr.splitlines()[-8:])
        raise SystemExit(f"{' '.join(command)}: ended with {process.returncode}\n{last_lines}")
    return stdout, stderr, usage.ru_maxrss * 1024


def find_pastkv(given):
    if given:
        return pathlib.Path(given)
    program = ROOT / "build/release/src/cli/pastkv"
    if not program.exists():
        raise SystemExit(f"{program} is missing; build it (cmake --preset release) or give --pastkv")
    return program


def models(folder, names, llama_bin):
    """Paths of the models by label: SmolLM2 in each type of `names` (made from the published Q4_1), and Gemma."""
    folder = pathlib.Path(folder)
    paths = {}
    for name in names:
        file = GEMMA3 if name == "gemma3" else SMOLLM2.replace("Q4_1", name)
        path = folder / file
        if not path.exists():
            published = {"gemma3": "gemma3", "Q4_1": "smollm2"}.get(name)
            if published:
                raise SystemExit(f"{path} is missing: run scripts/fetch-model {published}")
            run([llama_bin / "llama-quantize", "--allow-requantize", folder / SMOLLM2, path, name])
        paths["Gemma-3-270M Q4_K_M" if name == "gemma3" else f"SmolLM2-135M {name}"] = path
    return paths


def processor():
    with open("/proc/cpuinfo", encoding="utf-8") as info:
        for line in info:
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return platform.machine()


def instruction_sets():
    with open("/proc/cpuinfo", encoding="utf-8") as info:
        flags = next((line.split() for line in info if line.startswith(("flags", "Features"))), [])
    wanted = ("avx2", "fma", "f16c", "avx512f", "avx512_vnni", "avx512_bf16", "amx_int8", "asimddp", "i8mm")
    return " ".join(flag for flag in wanted if flag in flags)


def heading(pastkv, versions):
    """One line on when, where and with what the figures were made."""
    version = run([pastkv, "--version"])[0].strip()
    parts = [str(datetime.date.today()), f"{processor()} ({instruction_sets()})",
             f"{len(os.sched_getaffinity(0))} processors", platform.system(), version, *versions]
    return "; ".join(part for part in parts if part) + "."


def replace_section(page, name, text):
    """Puts `text` between the markers `<!-- begin NAME -->` and `<!-- end NAME -->` of a Markdown page."""
    page = pathlib.Path(page)
    begin, end = f"<!-- begin {name} -->", f"<!-- end {name} -->"
    whole = page.read_text(encoding="utf-8")
    if begin not in whole or end not in whole:
        raise SystemExit(f"{page} has no section {name}: it needs the lines {begin} and {end}")
    before, rest = whole.split(begin, 1)
    after = rest.split(end, 1)[1]
    page.write_text(f"{before}{begin}\n{text.strip()}\n{end}{after}", encoding="utf-8")
