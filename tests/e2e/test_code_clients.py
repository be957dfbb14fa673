#!/usr/bin/env python3
"""The official code-interpreter clients against the server on the native runtime, in each of their languages.

The Python client is used as it is. The JavaScript family's code-interpreter package is not on npm, so its flows are
driven by the package that is there: its transport, its reader of streams and its handlers."""
# timeout: 1500

import os
import shutil
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(HERE), "api"))

import clients  # noqa: E402  pylint: disable=wrong-import-position
from harness import Program, skip  # noqa: E402  pylint: disable=wrong-import-position

KEY = "a-key-for-tests"
PYTHON = ("opensandbox==1.1.1", "opensandbox-code-interpreter==1.1.1")
JAVASCRIPT = "@alibaba-group/opensandbox@0.1.11"
TYPESCRIPT = "typescript@5.9.3"

if os.geteuid() != 0:
    skip("the native runtime is tested as root")


def below_usr(program):
    """The directory of a program that the host image shows, or ""."""
    found = os.path.realpath(shutil.which(program) or "/nothing/there")
    return os.path.dirname(found) if found.startswith("/usr/") else ""


def absent():
    """Languages that the host image has not, with commas."""
    needs = {"javascript": "node", "typescript": "node", "java": "javac"}
    missing = [language for language, program in needs.items()
               if not shutil.which(program, path="/usr/local/bin:/usr/bin:/bin")]
    return ",".join(missing + ([] if below_usr("go") else ["go"]))


failed = False


def passed(title, argv):
    global failed  # pylint: disable=global-statement
    done = subprocess.run(argv, stdout=subprocess.PIPE, text=True, check=False, timeout=1200)
    sys.stdout.write(done.stdout)
    good = done.returncode == 0
    print(f"{'ok' if good else 'not ok'} {title} ran to its end", flush=True)
    failed |= not good or "not ok" in done.stdout


with tempfile.TemporaryDirectory(prefix="osb-code-") as state:
    env = dict(os.environ, OPENSANDBOX_SERVER_API_KEY=KEY)
    os.environ["OSB_ABSENT"] = absent()
    python = clients.python(*PYTHON)
    node, modules = clients.node(JAVASCRIPT)
    _, typescript = clients.node(TYPESCRIPT)
    with Program("opensandbox-server", "--state-dir", state, "--port", "0", "--kill-on-exit", env=env) as server:
        domain = f"{server.host}:{server.port}"
        compiler = os.path.join(typescript, "typescript")
        passed("client_code_python.py", [python, os.path.join(HERE, "client_code_python.py"), domain, KEY,
                                         below_usr("go"), compiler])
        passed("client_code_javascript.mjs", [node, os.path.join(HERE, "client_code_javascript.mjs"), domain, KEY,
                                              modules, below_usr("go"), compiler])
        code = server.stop()
        print(f"{'ok' if code == 0 else 'not ok'} the server leaves cleanly", flush=True)
        failed |= code != 0
sys.exit(1 if failed else 0)
