#!/usr/bin/env python3
"""The examples of the pages about execd, run as they stand there."""

import os
import re
import subprocess
import sys

from execdlib import start
from harness import DEADLINE

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
PAGES = ("execd.md", "execd-files.md")


def blocks(text):
    """(line number, [(command, expected output)]) of each console block."""
    for match in re.finditer(r"^```console\n(.*?)^```$", text, re.MULTILINE | re.DOTALL):
        steps = []
        for line in match.group(1).splitlines(keepends=True):
            if line.startswith("$ "):
                steps.append([line[2:].rstrip("\n"), ""])
            else:
                steps[-1][1] += line
        yield text.count("\n", 0, match.start()) + 1, steps


def pattern(expected):
    return re.compile(".*".join(re.escape(part) for part in expected.split("...")))


def main():
    found = []
    for page in PAGES:
        with open(os.path.join(ROOT, "docs", page), encoding="utf-8") as f:
            found += [(page, *block) for block in blocks(f.read())]
    assert len(found) >= 12, "the pages have lost their examples"
    failed = 0
    with start("--", "sh", "-c", "echo up; while :; do sleep 1000; done") as execd:
        for page, number, steps in found:
            # one shell per block, so that its variables last; a mark separates the outputs
            script = "".join(f"{command}\nprintf '\\036'\n" for command, _ in steps)
            done = subprocess.run(["bash", "-c", script], stdout=subprocess.PIPE, timeout=DEADLINE,
                                  env=dict(os.environ, EXECD=execd.url), check=False)
            outputs = done.stdout.decode().split("\036")
            bad = [(command, expected, output) for (command, expected), output in zip(steps, outputs)
                   if not pattern(expected.strip()).fullmatch(output.strip())]
            print(f"{'not ok' if bad else 'ok'} {page}_line_{number}", flush=True)
            for command, expected, output in bad:
                print(f"  $ {command}\n  expected: {expected!r}\n  got:      {output!r}", flush=True)
            failed += bool(bad)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
