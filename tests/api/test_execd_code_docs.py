#!/usr/bin/env python3
"""The examples of docs/code-interpreter.md, run as they stand there."""
# timeout: 900

import http.client
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile

from harness import Program

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "tests", "e2e"))

import clients  # noqa: E402  pylint: disable=wrong-import-position

NEEDS = {"python": "python3", "javascript": "node", "typescript": "node", "java": "javac", "r": "Rscript",
         "sql": "python3"}
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
SLOW = 600


def examples():
    """language -> list of (cell, what it shows)"""
    with open(os.path.join(ROOT, "docs", "code-interpreter.md"), encoding="utf-8") as page:
        blocks = BLOCK.findall(page.read())
    found = {}
    for (language, cell), (kind, shown) in zip(blocks, blocks[1:]):
        if kind == "output":
            found.setdefault(language, []).append((cell, shown))
    return found


def shown(events):
    out = "".join(e["text"] for e in events if e["type"] == "stdout")
    lines = [line.rstrip() for line in out.splitlines()]
    lines += ["=> " + e["results"]["text"] for e in events if e["type"] == "result"]
    lines += ["!! " + e["error"]["ename"] for e in events if e["type"] == "error"]
    return "\n".join(lines) + "\n"


def run(execd, context, language, cell):
    connection = http.client.HTTPConnection(execd.host, execd.port, timeout=SLOW)
    connection.request("POST", "/code", json.dumps({"code": cell, "context": {"id": context, "language": language}}))
    answer = connection.getresponse()
    events = [json.loads(line) for line in answer.read().decode().split("\n") if line]
    connection.close()
    return events


def new_context(execd, language):
    connection = http.client.HTTPConnection(execd.host, execd.port, timeout=SLOW)
    connection.request("POST", "/code/context", json.dumps({"language": language}))
    answer = json.loads(connection.getresponse().read())
    connection.close()
    return answer["id"]


def strips_types():
    test = "process.exit(require('node:module').stripTypeScriptTypes ? 0 : 1)"
    return subprocess.run(["node", "-e", test], check=False).returncode == 0


def check(execd, language, cells):
    context = new_context(execd, language)
    for i, (cell, wanted) in enumerate(cells):
        events = run(execd, context, language, cell)
        good = shown(events) == wanted
        print(f"{'ok' if good else 'not ok'} {language}_example_{i + 1}", flush=True)
        if not good:
            print(f"  wanted {wanted!r}, got {shown(events)!r}: {events}", flush=True)
            return False
    return True


def main():
    found, good, env = examples(), True, dict(os.environ)
    assert len(found) == 9, sorted(found)
    if shutil.which("node") and not strips_types():  # then the compiler is needed
        env["NODE_PATH"] = clients.node("typescript@5.9.3")[1]
    with tempfile.TemporaryDirectory() as place, Program("execd", "--port", "0", env=env, cwd=place) as execd:
        for language, cells in found.items():
            program = NEEDS.get(language, language)
            if shutil.which(program) is None:
                print(f"skip {language}_examples no {program} here", flush=True)
                continue
            good &= check(execd, language, cells)
    return 0 if good else 1


sys.exit(main())
