#!/usr/bin/env python3
"""The examples in the documentation, run as they stand there; docs/README.md says how they are marked."""
# timeout: 300

import os
import re
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
sys.path.insert(0, os.path.join(os.path.dirname(HERE), "api"))

# pylint: disable=wrong-import-position
import clients  # noqa: E402
from harness import case, run_cases  # noqa: E402
from serverlib import Server, clean_env  # noqa: E402

PYTHON_CLIENT = "opensandbox==1.1.1"
JAVASCRIPT_CLIENT = "@alibaba-group/opensandbox@0.1.11"
TIMEOUT_S = 120
MARK = "\036"  # between the outputs of two commands

# Pages whose examples another test runs, against a bare execd.
ELSEWHERE = ("docs/execd.md", "docs/execd-files.md")

BLOCK = re.compile(r"(?:^<!-- example: (?P<kind>\w+) -->\n)?^```(?P<type>\w*)\n(?P<text>.*?)^```$"
                   r"(?:\n\n```text\n(?P<output>.*?)^```$)?", re.MULTILINE | re.DOTALL)


class Block:
    def __init__(self, page, line, match):
        self.name = f"{page}:{line}"
        self.kind, self.type, self.text = match["kind"], match["type"], match["text"]
        self.output = match["output"]

    def steps(self):
        """(command, expected output) of a console block."""
        steps = []
        for line in self.text.splitlines(keepends=True):
            if line.startswith("$ "):
                steps.append([line[2:], ""])
            elif line.startswith("> ") and steps and not steps[-1][1]:
                steps[-1][0] += line[2:]
            else:
                assert steps, f"{self.name}: output without a command"
                steps[-1][1] += line
        return steps


def pages():
    yield "README.md"
    for place, dirs, names in os.walk(os.path.join(ROOT, "docs")):
        dirs.sort()
        for name in sorted(names):
            if name.endswith(".md"):
                yield os.path.relpath(os.path.join(place, name), ROOT)


def blocks(page):
    with open(os.path.join(ROOT, page), encoding="utf-8") as f:
        text = f.read()
    return [Block(page, text.count("\n", 0, match.start()) + 1, match) for match in BLOCK.finditer(text)]


def same(expected, got):
    """Is it what the page says? `...` stands for anything."""
    parts = [re.escape(part) for part in expected.strip().split("...")]
    return re.fullmatch(".*".join(parts), got.strip(), re.DOTALL) is not None


def run_console(found, env, directory):
    """One shell for all console blocks of a page, so that its variables last."""
    steps = [(block.name, command, expected) for block in found for command, expected in block.steps()]
    script = "".join(f"{command}printf '\\036'\n" for _, command, _ in steps)
    done = subprocess.run(["bash", "-c", script], cwd=directory, env=env, stdout=subprocess.PIPE,
                          timeout=TIMEOUT_S, text=True, check=False)
    outputs = done.stdout.split(MARK)
    assert len(outputs) == len(steps) + 1, f"a command ended the shell: {outputs[-1]!r}"
    for (name, command, expected), got in zip(steps, outputs):
        assert same(expected, got), f"{name}: $ {command}expected {expected!r}\ngot      {got!r}"


def run_code(block, argv, env, directory):
    done = subprocess.run(argv, cwd=directory, env=env, stdout=subprocess.PIPE, timeout=TIMEOUT_S, text=True,
                          check=False)
    assert done.returncode == 0, f"{block.name}: exit code {done.returncode}: {done.stdout}"
    assert same(block.output or "", done.stdout), f"{block.name}: printed {done.stdout!r}"


def run_page(found, server, directory):
    env = clean_env(SERVER=server.url, OPEN_SANDBOX_DOMAIN=f"{server.host}:{server.port}", LC_ALL="C.UTF-8")
    run_console([block for block in found if block.kind == "server"], env, directory)
    for block in found:
        path = os.path.join(directory, "example.mjs" if block.kind == "javascript" else "example.py")
        with open(path, "w", encoding="utf-8") as f:
            f.write(block.text)
        if block.kind == "python":
            run_code(block, [clients.python(PYTHON_CLIENT), path], env, directory)
        elif block.kind == "javascript":
            node, modules = clients.node(JAVASCRIPT_CLIENT)
            link = os.path.join(directory, "node_modules")
            if not os.path.lexists(link):
                os.symlink(modules, link)
            run_code(block, [node, path], env, directory)


@case
def every_console_block_is_an_example():
    found = [block for page in pages() if page not in ELSEWHERE for block in blocks(page)]
    for block in found:
        assert block.type != "console" or block.kind == "server", f"{block.name}: nobody runs this block"
        assert block.kind in (None, "server", "python", "javascript"), f"{block.name}: {block.kind}"
    assert {block.kind for block in found} >= {"server", "python", "javascript"}, "the examples are gone"


@case
def the_examples_do_what_they_say():
    for page in pages():
        found = [block for block in blocks(page) if block.kind]
        if not found:
            continue
        with Server() as server, tempfile.TemporaryDirectory(prefix="osb-docs-") as directory:
            run_page(found, server, directory)


@case
def links_lead_somewhere():
    for page in pages():
        with open(os.path.join(ROOT, page), encoding="utf-8") as f:
            text = re.sub(r"^```.*?^```$", "", f.read(), flags=re.MULTILINE | re.DOTALL)
        for target in re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", text):
            if not re.match(r"[a-z]+:", target):
                path = os.path.normpath(os.path.join(ROOT, os.path.dirname(page), target))
                assert os.path.exists(path), f"{page}: {target} is not there"


if __name__ == "__main__":
    sys.exit(1 if run_cases(sys.argv[1] if len(sys.argv) > 1 else None) else 0)
