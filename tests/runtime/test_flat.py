#!/usr/bin/env python3
"""Create and delete, over and over: what the server, the runner and the kernel keep must not grow.
timeout: 3000

OSB_FLAT_ROUNDS sets the number of rounds (300), OSB_FLAT_CURVE a file for the samples (tab-separated). Half of the
sandboxes are used before they go: a command, a file; one in eight has a disk of its own. What is compared is the
later half of the samples with the earlier one, after a warm-up."""

import os
import re
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import flat  # noqa: E402
from census import fd_count, names, read, rss_kib  # noqa: E402
from stage import Stage, enter, json  # noqa: E402

ROUNDS = int(os.environ.get("OSB_FLAT_ROUNDS", "300"))
CURVE = os.environ.get("OSB_FLAT_CURVE")
WORKERS = 3
SAMPLES = 30
ENDED = max(20, ROUNDS // 20)  # records kept of what has ended: reached within the warm-up

# What may be more in the later half: (share, at least this much). Memory comes in pages and arenas.
TOLERANCE = {"server_kib": (0.05, 1024), "runner_kib": (0.05, 512), "server_threads": (0, 0),
             "server_fds": (0, 3), "runner_fds": (0, 3), "runner_mounts": (0, 0), "host_mounts": (0, 0),
             "groups": (0, 0), "links": (0, 2), "loops": (0, 0), "namespaces": (0, 2), "directories": (0, 0),
             "rows": (0, 0), "database_kib": (0.25, 512), "state_kib": (0.25, 1024)}
# Of the whole machine, on which others work too. Shown, not judged:
SHOWN = ("net_namespaces",)
# Names in the kernel's cache: in use, and of what does not exist (any more). What each round leaves behind is there in
# every step, so the quieter steps tell.
NAMES = ("dentries_used", "dentries_negative")
NAMES_A_ROUND = 0.5


def tree_kib(path, part=""):
    """What the files take whose names have this part."""
    total = 0
    for place, _, files in os.walk(path):
        for name in files:
            try:
                total += os.lstat(os.path.join(place, name)).st_blocks // 2 if part in name else 0
            except FileNotFoundError:
                pass
    return total


def slab(name):
    found = re.search(rf"^{name}\s+(\d+)", read("/proc/slabinfo") or "", re.MULTILINE)
    return int(found.group(1)) if found else 0


def dentries():
    """Those in use, and those for what does not exist."""
    total, unused, _, _, negative = map(int, (read("/proc/sys/fs/dentry-state") or "0 0 0 0 0 0").split()[:5])
    return {"dentries_used": total - unused, "dentries_negative": negative}


def sample(stage):
    """With nothing under way."""
    here, server, runner = stage.instance, stage.server.pid, stage.runner()
    here.agrees(set())
    return {
        "server_kib": rss_kib(server), "runner_kib": rss_kib(runner),
        "server_threads": len(names(f"/proc/{server}/task")),
        "server_fds": fd_count(server), "runner_fds": fd_count(runner),
        "runner_mounts": len(here.mounts_of(runner)), "host_mounts": len(here.mounts()),
        "groups": len(here.leaves()), "links": len(here.links()), "loops": len(here.loops()),
        "namespaces": len(here.namespaces()), "directories": len(here.entries("sandboxes")), "rows": len(here.rows()),
        "database_kib": tree_kib(stage.state, ".db"), "state_kib": tree_kib(stage.state),
        "net_namespaces": slab("net_namespace"), **dentries(),
    }


def one(server, n):
    limits = {"memory": "128Mi", **({"disk": "8Mi"} if n % 8 == 0 else {})}
    sandbox = server.make(resourceLimits=limits, metadata={"n": str(n)}, env={"N": "x" * (n % 200)})
    if n % 2 == 0:
        assert server.run(sandbox, "echo $N | wc -c; seq 1000 > /tmp/file; (sleep 1000 &)") == str(n % 200 + 1)
    if n % 16 == 2:
        for way in ("pause", "resume"):
            assert server.call("POST", f"/v1/sandboxes/{sandbox}/{way}").status == 202
    assert server.delete(sandbox).status == 204
    assert server.info(sandbox).status == 404


def judge(samples, step):
    """What has grown, in words."""
    grown, warm = flat.judge(samples, TOLERANCE), flat.warm(samples)
    for name in SHOWN:
        print(f"   {name} of the machine: {samples[0][name]} then {samples[-1][name]}")
    for name in NAMES:
        steps = sorted((b[name] - a[name]) / step for a, b in zip(warm, warm[1:]))
        quiet = steps[len(steps) // 4]
        good = quiet < NAMES_A_ROUND
        print(f"{'ok' if good else 'not ok'} {name} {quiet:g} a round in the quieter steps, of the whole machine "
              f"{samples[0][name]} then {samples[-1][name]}", flush=True)
        if not good:
            grown.append(name)
    return grown


def main():
    enter()
    samples = []
    with Stage("--set", f"store.max_ended={ENDED}", log=-3) as stage:
        stage.start()
        step = max(1, ROUNDS // SAMPLES)
        began = time.monotonic()
        for at in range(0, ROUNDS, step):
            flat.share(range(at, min(at + step, ROUNDS)), WORKERS, lambda n, _: one(stage.server, n))
            samples.append(sample(stage))
            flat.note(CURVE, min(at + step, ROUNDS), samples[-1])
        print(f"   {ROUNDS} rounds, {ROUNDS / (time.monotonic() - began):.1f} a second")
        grown = judge(samples, step)
    print("ok nothing is left")
    if grown:
        print(json.dumps(samples))
    sys.exit(1 if grown else 0)


main()
