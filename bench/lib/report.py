"""What all benchmarks share: facts of the machine, rounds that alternate between peers, and the figures as
JSON, table and plot.

Machines are shared and noisy, so peers are measured in turns within one run and compared by the ratio of their
medians. Absolute numbers are only for orientation.
"""

import json
import os
import platform
import statistics
import subprocess
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUILD = os.environ.get("OSB_BUILD") or os.path.join(ROOT, "build")
OUT = os.environ.get("OSB_BENCH_OUT") or os.path.join(BUILD, "bench")
DOCS = os.path.join(ROOT, "docs", "benchmarks")


def machine():
    """Where a figure was taken; every report carries it."""
    def git(*args):
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
    return {"arch": platform.machine(), "cpu": cpu, "cores": os.cpu_count(), "memory_mib": memory,
            "kernel": platform.release().split("-")[0],
            "commit": git("rev-parse", "--short", "HEAD") + ("+" if git("status", "--porcelain") else ""),
            "date": time.strftime("%Y-%m-%d")}


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


class Report:
    """Collects rows and writes NAME.json to the output directory, and on request the table and
    the plot to docs/benchmarks/."""

    def __init__(self, name, title):
        self.name, self.title, self.rows, self.machine = name, title, [], machine()

    def add(self, what, unit, results, ours="opensandbox", goal=None, higher_is_better=True):
        """results: peer -> list of values. `goal`: what the ratio to the first other peer must be."""
        medians = {peer: statistics.median(values) for peer, values in results.items()}
        others = [peer for peer in medians if peer != ours]
        ratio = medians[ours] / medians[others[0]] if others and medians[others[0]] else None
        met = None
        if goal is not None and ratio is not None:
            met = ratio >= goal if higher_is_better else ratio <= goal
        row = {"what": what, "unit": unit, "medians": medians, "values": results, "ratio": ratio,
               "goal": goal, "higher_is_better": higher_is_better, "met": met}
        self.rows.append(row)
        self._say(row)

    def limit(self, what, unit, value, at_most):
        """A figure with a bound of its own (bytes, not seconds)."""
        row = {"what": what, "unit": unit, "medians": {"opensandbox": value}, "values": None,
               "ratio": None, "goal": at_most, "higher_is_better": False, "met": value <= at_most}
        self.rows.append(row)
        self._say(row)

    @staticmethod
    def _say(row):
        figures = ", ".join(f"{peer} {value:,.4g}" for peer, value in row["medians"].items())
        ratio = f", ratio {row['ratio']:.2f}" if row["ratio"] is not None else ""
        goal = "" if row["goal"] is None else f" (goal {row['goal']:,})"
        print(f"{row['what']}: {figures} {row['unit']}{ratio}{goal}", flush=True)

    def missed(self):
        return [row["what"] for row in self.rows if row["met"] is False]

    def write(self, notes=""):
        os.makedirs(OUT, exist_ok=True)
        with open(os.path.join(OUT, self.name + ".json"), "w", encoding="utf-8") as out:
            json.dump({"machine": self.machine, "rows": self.rows}, out, indent=1)
        if os.environ.get("OSB_BENCH_PUBLISH") == "1":
            os.makedirs(DOCS, exist_ok=True)
            with open(os.path.join(DOCS, self.name + ".md"), "w", encoding="utf-8") as out:
                out.write(self._table(notes))
            with open(os.path.join(DOCS, self.name + ".svg"), "w", encoding="utf-8") as out:
                out.write(self._plot())
        missed = self.missed()
        print("all goals met" if not missed else "missed: " + "; ".join(missed), flush=True)
        return 1 if missed else 0

    def _table(self, notes):
        m = self.machine
        lines = [f"# {self.title}", "",
                 f"Taken on {m['date']} at commit {m['commit']}: {m['cores']} cores ({m['cpu']}, "
                 f"{m['arch']}), {m['memory_mib'] // 1024} GiB, Linux {m['kernel']}. Medians; peers "
                 "measured in turns in one run. Ratios travel between machines, absolute numbers do "
                 f"not. `make bench BENCH={self.name}` takes them again.", ""]
        if notes:
            lines += [notes, ""]
        lines += [f"![ratios]({self.name}.svg)", "",
                  "| what | unit | ours | peer | ratio | goal | met |", "|---|---|---|---|---|---|---|"]
        for row in self.rows:
            others = [f"{peer} {value:,.4g}" for peer, value in row["medians"].items()
                      if peer != "opensandbox"]
            sign = "≥" if row["higher_is_better"] else "≤"
            goal = "" if row["goal"] is None else f"{sign} {row['goal']:,}"
            ratio = "" if row["ratio"] is None else f"{row['ratio']:.2f}"
            met = {True: "yes", False: "**no**", None: ""}[row["met"]]
            lines.append(f"| {row['what']} | {row['unit']} | {row['medians']['opensandbox']:,.4g} | "
                         f"{', '.join(others)} | {ratio} | {goal} | {met} |")
        return "\n".join(lines) + "\n"

    def _plot(self):
        """One bar per row that has a peer: ours as a ratio of the peer's, the peer being 1."""
        rows = [row for row in self.rows if row["ratio"] is not None]
        height, left, scale = 28 * len(rows) + 50, 330, 170
        top = max([row["ratio"] for row in rows] + [1.2])
        scale = 320 / top
        out = [f'<svg xmlns="http://www.w3.org/2000/svg" width="780" height="{height}" '
               'font-family="sans-serif" font-size="13">',
               f'<text x="10" y="20" font-size="15">{self.title}: ours / peer</text>']
        for i, row in enumerate(rows):
            y = 34 + 28 * i
            good = row["ratio"] >= 1 if row["higher_is_better"] else row["ratio"] <= 1
            arrow = "higher is better" if row["higher_is_better"] else "lower is better"
            out += [f'<text x="{left - 8}" y="{y + 15}" text-anchor="end">{row["what"]}'
                    f'<title>{arrow}</title></text>',
                    f'<rect x="{left}" y="{y}" width="{row["ratio"] * scale:.1f}" height="20" '
                    f'fill="{"#2a7f62" if good else "#c98a2b"}"/>',
                    f'<text x="{left + row["ratio"] * scale + 6:.1f}" y="{y + 15}">'
                    f'{row["ratio"]:.2f}</text>']
        x = left + scale
        out += [f'<line x1="{x:.1f}" y1="28" x2="{x:.1f}" y2="{height - 12}" stroke="#888" '
                'stroke-dasharray="4 3"/>', "</svg>"]
        return "\n".join(out) + "\n"
