"""What a benchmark found: groups of times, goals, curves and profiles, as JSON, page and plot.

    report = Report("gateway", "The gateway beside nginx")
    report.group("small answers", "requests/s", {"opensandbox": [...], "nginx": [...]}, better="higher")
    report.goal("small answers against nginx", ratio, at_least=0.8)
    sys.exit(report.write())

Machines are shared and noisy, so peers are measured in turns within one run and compared by the ratio of their
medians; a value of None is an attempt that failed. A goal that is missed is reported as missed, and its page says
why: in the words given with it, else by what leads in each profile().
"""

import json
import os
import platform
import shutil
import statistics
import subprocess
import time

import plot

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUILD = os.environ.get("OSB_BUILD") or os.path.join(ROOT, "build")
OUT = os.environ.get("OSB_BENCH_OUT") or os.path.join(BUILD, "bench")
DOCS = os.path.join(ROOT, "docs", "benchmarks")
OURS = "opensandbox"


def machine():
    """Where a figure was taken; every report carries it."""
    def git(*args):
        if shutil.which("git") is None:
            return "?" if args[0] == "rev-parse" else ""
        return subprocess.run(["git", "-C", ROOT, *args], stdout=subprocess.PIPE,
                              stderr=subprocess.DEVNULL, text=True, check=False).stdout.strip()

    cpu = "unknown"
    with open("/proc/cpuinfo", encoding="utf-8") as info:
        for line in info:
            if line.startswith(("model name", "CPU part")):
                cpu = line.split(":", 1)[1].strip()
                break
    with open("/proc/meminfo", encoding="ascii") as info:
        memory = int(info.readline().split()[1]) // 1024
    dirty = git("status", "--porcelain", "--", ".", ":(exclude)docs/benchmarks", ":(exclude)README.md")  # both written
    return {"arch": platform.machine(), "cpu": cpu, "cores": os.cpu_count(), "memory_mib": memory,
            "kernel": platform.release().split("-")[0], "load": os.getloadavg()[0],
            "commit": git("rev-parse", "--short", "HEAD") + ("+" if dirty else ""),
            "date": time.strftime("%Y-%m-%d")}


NO_SETTINGS = ("OSB_BENCH_OUT", "OSB_BENCH_PUBLISH", "OSB_BENCH_PEERS", "OSB_FLAT_CURVE")


def settings():
    """What was set for this run and decides what is measured: whoever repeats it needs the same."""
    found = {name: value for name, value in sorted(os.environ.items())
             if name.startswith(("OSB_BENCH_", "OSB_FLAT_")) and name not in NO_SETTINGS}
    return found | ({"PEERS": "1"} if os.environ.get("OSB_BENCH_PEERS") == "1" else {})


def machine_words(m):
    return (f"Taken on {m['date']} at commit {m['commit']}: {m['cores']} cores ({m['cpu']}, {m['arch']}), "
            f"{m['memory_mib'] / 1024:.0f} GiB, Linux {m['kernel']}, load {m['load']:.1f} before the start.")


def rounds(n, **peers):
    """Call every peer n times in turns; name -> list of results."""
    results = {name: [] for name in peers}
    for _ in range(n):
        for name, measure in peers.items():
            results[name].append(measure())
    return results


def percentile(values, p):
    values = sorted(values)
    return values[min(len(values) - 1, int(len(values) * p / 100))]


def number(value):
    """Three digits that mean something."""
    if value == 0 or value == int(value) and abs(value) < 1000:
        return str(int(value))
    for least, digits in ((100, 0), (10, 1), (1, 2), (0.01, 3)):
        if abs(value) >= least:
            return f"{value:,.{digits}f}"
    return f"{value:.2g}"


def summary(values):
    """None stands for an attempt that failed."""
    good = [value for value in values if value is not None]
    found = {"n": len(values), "ok": len(good)}
    if good:
        found |= {"median": statistics.median(good), "p95": percentile(good, 95), "p99": percentile(good, 99),
                  "least": min(good), "most": max(good)}
    return found


class Report:
    def __init__(self, name, title):
        self.name, self.title, self.machine, self.began = name, title, machine(), time.monotonic()
        self.settings = settings()
        self.groups, self.goals, self.curves, self.profiles, self.notes, self.absent = [], [], [], [], [], {}
        if self.machine["load"] > self.machine["cores"] / 2:
            print(f"others are busy here (load {self.machine['load']:.1f}): only ratios mean something", flush=True)

    def group(self, what, unit, results, better="lower"):
        """results: who -> list of values. Returns the median of each."""
        group = {"what": what, "unit": unit, "better": better,
                 "who": {who: summary(values) for who, values in results.items() if values}}
        self.groups.append(group)
        print(f"{what} ({unit}):", flush=True)
        for who, s in group["who"].items():
            if s["ok"]:
                print(f"    {who:24} median {number(s['median']):>8}  p95 {number(s['p95']):>8}  "
                      f"p99 {number(s['p99']):>8}  {s['ok']} of {s['n']}", flush=True)
            else:
                print(f"    {who:24} none of {s['n']} succeeded", flush=True)
        return {who: s["median"] for who, s in group["who"].items() if s["ok"]}

    def goal(self, what, value, unit="", at_most=None, at_least=None, detail="", why=""):
        """A figure with its bound; summed up on the first page. why: of a miss, in words made from what was measured"""
        met = value <= at_most if at_most is not None else value >= at_least
        bound = f"≤ {number(at_most)}" if at_most is not None else f"≥ {number(at_least)}"
        goal = {"what": what, "goal": f"{bound} {unit}".strip(), "value": value, "met": met, "why": "" if met else why,
                "measured": f"{number(value)} {unit}".strip() + (f" ({detail})" if detail else "")}
        self.goals.append(goal)
        print(f"{'met   ' if met else 'MISSED'} {what}: {goal['measured']}, goal {goal['goal']}", flush=True)
        return met

    def compare(self, what, unit, results, better="lower", at_most=None, at_least=None, peer=None):
        """A group with a goal for the ratio of our median to a peer's."""
        medians = self.group(what, unit, results, better)
        peer = peer or next((who for who in medians if who != OURS), None)
        if peer in medians and (at_most or at_least):
            self.goal(f"{what}, against {peer}", medians[OURS] / medians[peer], "×", at_most, at_least,
                      f"{number(medians[OURS])} against {number(medians[peer])} {unit}")
        return medians

    def curve(self, what, unit, along, points):
        """points: name -> list of (x, y)"""
        self.curves.append({"what": what, "unit": unit, "along": along, "points": points})

    def profile(self, what, columns, rows):
        """A table that says where time or memory goes."""
        self.profiles.append({"what": what, "columns": columns,
                              "rows": [[number(c) if isinstance(c, (int, float)) else c for c in row] for row in rows]})
        print(f"{what}:", flush=True)
        for row in self.profiles[-1]["rows"]:
            print("    " + "  ".join(f"{cell:>10}" if i else f"{cell:34}" for i, cell in enumerate(row)), flush=True)

    def note(self, text):
        self.notes.append(text)

    def miss(self, who, why):
        """A peer that is not here, or "peer, figure" where it cannot do what is measured, and the reason."""
        self.absent[who] = why
        print(f"absent: {who}: {why}", flush=True)

    def _leaders(self):
        """For a miss without words of its own."""
        rows = [f"{p['what']}: {', '.join(p['rows'][0])}" for p in self.profiles if p["rows"]]
        return "no profile was taken of it." if not rows else f"what leads in the tables below is {'; '.join(rows)}."

    def write(self):
        for goal in self.goals:
            goal["why"] = "" if goal["met"] else goal["why"] or self._leaders()
        data = {"name": self.name, "title": self.title, "machine": self.machine, "settings": self.settings,
                "seconds": round(time.monotonic() - self.began), "notes": self.notes, "absent": self.absent,
                "goals": self.goals, "groups": self.groups, "curves": self.curves, "profiles": self.profiles}
        directories = [OUT] + ([DOCS] if os.environ.get("OSB_BENCH_PUBLISH") == "1" else [])
        for directory in directories:
            os.makedirs(directory, exist_ok=True)
            for name, text in forms(data).items():
                with open(os.path.join(directory, name), "w", encoding="utf-8") as out:
                    out.write(text)
        missed = [goal["what"] for goal in self.goals if not goal["met"]]
        print(f"{data['seconds']} s; " + ("missed: " + "; ".join(missed) if missed else "all goals met"), flush=True)
        return 0


def table(columns, rows):
    return ["| " + " | ".join(columns) + " |", "|" + "---|" * len(columns),
            *("| " + " | ".join(row) + " |" for row in rows), ""]


def goal_rows(goals):
    return [[g["what"], g["goal"], g["measured"], "yes" if g["met"] else "**no**"] for g in goals]


def again(data):
    """The command that takes the figures once more, with what was set for them."""
    part = data["name"].partition("-")[0]
    return " ".join([*(f"{name}={value}" for name, value in data["settings"].items()), f"make bench BENCH={part}"])


def forms(data):
    """File name -> text of all that is published of a report."""
    return {f"{data['name']}.json": json.dumps(data, indent=1) + "\n", f"{data['name']}.md": page(data),
            f"{data['name']}.svg": plot.draw(data, machine_words(data["machine"]))}


def page(data):
    name = data["name"]
    beside = any(not who.startswith(OURS) for group in data["groups"] for who in group["who"])
    lines = [f"# {data['title']}", "",
             machine_words(data["machine"]) + (" Peers are measured in the same run." if beside else "") + " Ratios "
             f"travel between machines, absolute numbers do not. `{again(data)}` takes them again; "
             f"[{name}.json]({name}.json) has the same for programs.", ""]
    for note in data["notes"]:
        lines += [note, ""]
    if data["absent"]:
        lines += ["Absent in this run:", ""] + [f"- {who}: {why}" for who, why in data["absent"].items()] + [""]
    if data["goals"]:
        lines += ["## Goals", ""] + table(["figure", "goal", "measured", "met"], goal_rows(data["goals"]))
        missed = [f"- Missed: {goal['what']}: {goal['why']}" for goal in data["goals"] if not goal["met"]]
        lines += missed + [""] if missed else []
    if data["groups"] or data["curves"]:
        lines += ["## Figures", "", f"![the figures as bars]({name}.svg)", ""]
    rows = []
    for group in data["groups"]:
        first = next(iter(group["who"].values()), {}).get("median")
        for i, (who, s) in enumerate(group["who"].items()):
            numbers = [number(s[key]) for key in ("median", "p95", "p99")] if s["ok"] else ["-"] * 3
            ratio = f"{number(s['median'] / first)}×" if i and s["ok"] and first else ""
            rows.append([group["what"] if not i else "", who, group["unit"], *numbers, f"{s['ok']}/{s['n']}", ratio])
    if rows:
        lines += table(["what", "who", "unit", "median", "p95", "p99", "succeeded", "of the first"], rows)
    for curve in data["curves"]:
        xs = [x for x, _ in next(iter(curve["points"].values()))]
        lines += [f"### {curve['what']} ({curve['unit']})", ""]
        lines += table([curve["along"], *map(number, xs)],
                       [[who, *(number(y) for _, y in points)] for who, points in curve["points"].items()])
    if data["profiles"]:
        lines += ["## Where it goes", ""]
    for profile in data["profiles"]:
        lines += [f"### {profile['what']}", ""] + table(profile["columns"], profile["rows"])
    return "\n".join(lines).rstrip() + "\n"
