#!/usr/bin/env python3
"""docs/benchmarks/README.md from the published figures beside it: every goal, what was measured, whether it is met.

usage: bench/lib/summary.py
"""

import glob
import json
import os

from report import DOCS, goal_rows, machine_words, number, table

HEAD = """# Benchmarks

`make bench` compares these programs with their peers in one run on one machine; `make bench BENCH="lifecycle
gateway"` takes some of the parts, `make bench PEERS=1` first installs the peers from Debian and PyPI, and `make
bench PUBLISH=1` writes tables, plots and this page. The peers are docker.io on runc and on gVisor, podman,
bubblewrap and the public server from PyPI on Docker; for parts of a figure nginx, ipykernel, `cat`, `posix_spawn`.
Each stands beside every figure it has an answer to. Those that are not installed, do not work on the machine or cannot
do what is measured are named on the page with the reason. Nothing is pulled: all get the same root file system, made
here by mmdebstrap.

Only the ratio between two columns of the same run says something about another machine. A goal that is missed
stays in the table, and its page says where the time goes.
"""

TAIL = """## Not among these

- Nothing may be left after `kill -9` of server or runner: that is a test, `tests/runtime/test_kill9.py`, not a
  figure.
- Forks of a running sandbox are not built yet and have no figure.
- 5,000 sandboxes at once take some minutes more: `OSB_BENCH_LIVE=5000 make bench BENCH=density`; the page is then
  density-5000.md. 100,000 creates and deletes take a quarter of an hour: `OSB_FLAT_ROUNDS=100000
  OSB_BENCH_SECONDS=3600 make bench BENCH=flat`.
"""


def medians(group):
    return ", ".join(f"{who} {number(s['median'])}" for who, s in group["who"].items() if s["ok"]) + " " + group["unit"]


def main():
    reports = []
    for path in sorted(glob.glob(os.path.join(DOCS, "*.json"))):
        with open(path, encoding="utf-8") as file:
            reports.append(json.load(file))
    goals = [goal for report in reports for goal in report["goals"]]
    missed = [goal for goal in goals if not goal["met"]]
    lines = [HEAD]
    if goals:
        lines += [f"{len(goals) - len(missed)} of {len(goals)} goals are met" +
                  (": missed are " + "; ".join(goal["what"] for goal in missed) + "." if missed else "."), ""]
    for report in reports:
        lines += [f"## [{report['title']}]({report['name']}.md)", "", machine_words(report["machine"]), ""]
        if report["goals"]:
            lines += table(["figure", "goal", "measured", "met?"], goal_rows(report["goals"]))
        else:
            lines += table(["figure, without a goal", "medians"], [[g["what"], medians(g)] for g in report["groups"]])
    lines.append(TAIL)
    with open(os.path.join(DOCS, "README.md"), "w", encoding="utf-8") as out:
        out.write("\n".join(lines))


if __name__ == "__main__":
    main()
