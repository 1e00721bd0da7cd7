#!/usr/bin/env python3
"""Renders chat templates with Jinja2 as transformers sets it up and notes what came out.

    render_templates.py TEMPLATE_FOLDER > tests/data/text/template_golden.json
    render_templates.py TEMPLATE_FOLDER --full OUT_FOLDER

The first form writes, for each template and conversation, the length in bytes and the 64-bit FNV-1a hash of the
prompt, or "raises"; the second the prompts themselves, to look at a difference.
Versions: Python 3.11, Jinja2 3.1.6. The environment is that of transformers 4.57.6
(utils/chat_template_utils.py, _compile_jinja_template).
"""

import argparse
import json
import pathlib
import sys
from datetime import datetime, timezone

import jinja2
import jinja2.ext
import jinja2.nodes
import jinja2.sandbox

NOW = datetime.fromtimestamp(1722000000, timezone.utc)  # 2024-07-26 13:20:00
TOKENS = {"bos_token": "<s>", "eos_token": "</s>", "pad_token": "<pad>", "unk_token": "<unk>"}
CONVERSATIONS = pathlib.Path(__file__).parent.parent / "data" / "text" / "conversations.json"


class Generation(jinja2.ext.Extension):
    """{% generation %} ... {% endgeneration %}: renders its body."""

    tags = {"generation"}

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        return jinja2.nodes.CallBlock(self.call_method("_body"), [], [], body).set_lineno(line)

    @staticmethod
    def _body(caller):
        return caller()


def environment():
    def raise_exception(message):
        raise jinja2.exceptions.TemplateError(message)

    def tojson(value, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
        return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)

    env = jinja2.sandbox.ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[Generation, jinja2.ext.loopcontrols]
    )
    env.filters["tojson"] = tojson
    env.globals["raise_exception"] = raise_exception
    env.globals["strftime_now"] = NOW.strftime
    return env


def render(template, conversation):
    return template.render(
        messages=conversation["messages"],
        tools=conversation.get("tools"),
        documents=conversation.get("documents"),
        add_generation_prompt=conversation.get("add_generation_prompt", True),
        **{**TOKENS, **conversation.get("extra", {})},
    )


def render_all(env, source, conversations):
    results = {}
    for conversation in conversations:
        conversation = json.loads(json.dumps(conversation))
        extra = conversation.get("extra", {})
        conversation["documents"] = extra.pop("documents", None)
        try:
            results[conversation["name"]] = render(env.from_string(source), conversation)
        except Exception as error:  # whatever Jinja2 or the template raises
            results[conversation["name"]] = error
    return results


def digest(result):
    if isinstance(result, Exception):
        return "raises"
    data = result.encode()
    value = 0xCBF29CE484222325
    for byte in data:
        value = ((value ^ byte) * 0x100000001B3) & (2**64 - 1)
    return f"{len(data)}:{value:016x}"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("templates", type=pathlib.Path)
    parser.add_argument("--full", type=pathlib.Path)
    args = parser.parse_args()
    conversations = json.loads(CONVERSATIONS.read_text())
    golden = {}
    for path in sorted(args.templates.glob("*.jinja")):
        results = render_all(environment(), path.read_bytes().decode(), conversations)
        golden[path.name] = {name: digest(result) for name, result in results.items()}
        if args.full:
            for name, result in results.items():
                raised = isinstance(result, Exception)
                text = f"{type(result).__name__}: {result}" if raised else result
                target = args.full / f"{path.name}.{name}{'.raises' if raised else ''}"
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_bytes(text.encode())
    if not args.full:
        json.dump(golden, sys.stdout, indent=1, sort_keys=True)
        print()


if __name__ == "__main__":
    main()
