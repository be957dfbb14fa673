"""The root file system that all are given: Debian's essential packages, nginx and Python, made here by mmdebstrap, kept
in the cache."""

import os
import shutil
import subprocess

from report import ROOT

CACHE = os.path.join(os.environ.get("OSB_CACHE") or os.path.join(ROOT, ".cache"), "bench")


PACKAGES = ("nginx", "python3")


def suite():
    with open("/etc/os-release", encoding="utf-8") as release:
        for line in release:
            if line.startswith("VERSION_CODENAME="):
                return line.split("=", 1)[1].strip().strip('"')
    return "stable"


def tarball():
    """Its path. RuntimeError says why there is none."""
    path = os.path.join(CACHE, "-".join(("debian", suite(), *PACKAGES)) + ".tar")
    if os.path.exists(path):
        return path
    if not shutil.which("mmdebstrap"):
        raise RuntimeError("mmdebstrap is not installed")
    os.makedirs(CACHE, exist_ok=True)
    print(f"making the peers' image of Debian {suite()}", flush=True)
    done = subprocess.run(["mmdebstrap", "--quiet", "--variant=essential", "--include=" + ",".join(PACKAGES),
                           "--format=tar", suite(), path + ".new"], stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=300, check=False)
    if done.returncode != 0:
        raise RuntimeError("mmdebstrap: " + done.stdout.strip().rsplit("\n", 1)[-1])
    os.rename(path + ".new", path)
    return path


def unpack(directory):
    """A directory with it."""
    root = os.path.join(directory, "rootfs")
    os.makedirs(root)
    subprocess.run(["tar", "-C", root, "-xf", tarball(), "--exclude=./dev/*"], check=True, timeout=120)
    return root
