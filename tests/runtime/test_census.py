#!/usr/bin/env python3
"""What the census says after each kill can be wrong: a link, a loop device or a filter too many is found.
timeout: 120"""

import os
import subprocess
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from stage import Stage, enter  # noqa: E402
from census import POOL, settle  # noqa: E402

if os.geteuid() != 0:
    print("skip: needs root")
    sys.exit(77)


def run(*argv):
    return subprocess.run(argv, check=True, stdout=subprocess.PIPE, text=True, timeout=60).stdout.strip()


def found(stage, expected, what):
    """Exactly this is wrong, also if one looks for a while."""
    try:
        stage.instance.agrees(expected, 0.5)
    except AssertionError:
        wrong = stage.instance.disagreements(expected)
        assert list(wrong) == [what], wrong
        print(f"ok {what} too many are found")
        return
    raise AssertionError(f"nobody saw the {what}")


def main():
    enter()
    with Stage() as stage:
        stage.start()
        instance = stage.instance
        plain = stage.server.make()
        disk = stage.server.make(resourceLimits={"memory": "64Mi", "disk": "16Mi"})
        expected = {plain, disk}
        instance.agrees(expected)
        settle(lambda: len(instance.links()) != len(expected) + POOL, 30, "the runner has not got its namespaces ready")

        run("ip", "link", "add", f"osb{instance.tag}.ffff", "type", "veth", "peer", "name", "stray")
        found(stage, expected, "links")
        run("ip", "link", "del", "stray")

        file = os.path.join(stage.state, "sandboxes", plain, "stray")
        with open(file, "wb") as f:
            f.truncate(1 << 20)
        loop = run("losetup", "--find", "--show", file)
        try:
            found(stage, expected, "loops")
        finally:
            run("losetup", "--detach", loop)
            os.unlink(file)

        run("nft", "add", "table", "ip", f"opensandbox_{instance.tag}")
        found(stage, expected, "filters")
        run("nft", "delete", "table", "ip", f"opensandbox_{instance.tag}")
        instance.agrees(expected)
        for sandbox in expected:
            assert stage.server.delete(sandbox).status == 204
        instance.agrees(set())
    print("ok and nothing when nothing is there")


main()
