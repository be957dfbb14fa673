#!/usr/bin/env python3
"""All that is said of the published figures, from docs/benchmarks/*.json: the page and plot of each, the page that sums
all up, and the sentence in README.md. scripts/check-figures compares.

usage: bench/lib/summary.py
"""

import glob
import json
import os
import re
import textwrap

from report import OURS, ROOT, forms, goal_rows, machine_words, number, table

HEAD = """# Benchmarks

`make bench` compares these programs with their peers in one run on one machine; `make bench BENCH="lifecycle
gateway"` takes some of the parts, `make bench PEERS=1` first installs the peers from Debian and PyPI, and `make
bench PUBLISH=1` writes tables, plots and this page. The peers are docker.io on runc and on gVisor, podman,
bubblewrap and the public server from PyPI on Docker; for parts of a figure nginx, ipykernel, `cat`, `posix_spawn`.
Each stands beside every figure it has an answer to. Those that are not installed, do not work on the machine or cannot
do what is measured are named on the page with the reason. Nothing is pulled: all get the same root file system, made
here by mmdebstrap.

Only the ratio between two columns of the same run says something about another machine. A goal that is missed
stays in the table, and its page says why: where the time or the memory goes.
"""

TAIL = """## Not among these

- Nothing may be left after `kill -9` of server or runner: that is a test, `tests/runtime/test_kill9.py`, not a
  figure.
- Forks of a running sandbox are not built yet and have no figure.
- The command on top of each page has the settings of its run. 5,000 sandboxes at once are `OSB_BENCH_LIVE=5000 make
  bench BENCH=density`; the page is then density-5000.md. What stays behind after 100,000 creates and deletes, or after
  a million commands, takes up to an hour: `OSB_FLAT_ROUNDS=100000` or `OSB_FLAT_EXECS=1000000`, each with
  `OSB_BENCH_SECONDS=3600 make bench BENCH=flat`.
"""

MARKED = re.compile(r"(<!-- figures: [^\n]* -->\n).*?(<!-- end of figures -->\n)", re.DOTALL)


def medians(group):
    return ", ".join(f"{who} {number(s['median'])}" for who, s in group["who"].items() if s["ok"]) + " " + group["unit"]


def summed_up(reports):
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
    return "\n".join(lines + [TAIL])


def sentence(reports):
    """The first words about speed and number that a visitor reads."""
    said = []
    for report in reports:
        for group in report["groups"]:
            if group["what"] == "create to first result, one by one":
                taken = {who: s["median"] for who, s in group["who"].items() if s["ok"]}
                said.append(f"From the request to the first result of a command {number(taken[OURS])} ms" + (
                    f", {number(taken['docker'] / taken[OURS])} times as fast as `docker run` in the same run"
                    if "docker" in taken else ""))
    alive = max(((goal["value"], report["machine"]) for report in reports for goal in report["goals"]
                 if goal["what"] == "sandboxes alive at once"), key=lambda pair: pair[0], default=None)
    if alive:
        n, m = alive
        said.append(f"{n:,} sandboxes alive at once on {m['cores']} cores and {m['memory_mib'] / 1024:.0f} GiB")
    return textwrap.fill("; ".join(said) + " ([figures](docs/benchmarks/)).", 100) + "\n"


def texts(root):
    """Path -> text of everything that follows from the published JSON."""
    docs, reports, found = os.path.join("docs", "benchmarks"), [], {}
    for path in sorted(glob.glob(os.path.join(root, docs, "*.json"))):
        with open(path, encoding="utf-8") as file:
            reports.append(json.load(file))
        found |= {os.path.join(docs, name): text for name, text in forms(reports[-1]).items()}
    found[os.path.join(docs, "README.md")] = summed_up(reports)
    with open(os.path.join(root, "README.md"), encoding="utf-8") as file:
        found["README.md"] = MARKED.sub(lambda m: m[1] + sentence(reports) + m[2], file.read())
    return found


def main(root=ROOT):
    for path, text in texts(root).items():
        with open(os.path.join(root, path), "w", encoding="utf-8") as out:
            out.write(text)


if __name__ == "__main__":
    main()
