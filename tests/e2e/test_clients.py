#!/usr/bin/env python3
"""The official clients, unmodified, from their registries, against the server on the native runtime.

usage: test_clients.py [--fetch]    (only fetch the clients)
"""
# timeout: 600

import os
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(HERE), "api"))

import clients  # noqa: E402  pylint: disable=wrong-import-position
from harness import DEADLINE, Program, skip  # noqa: E402  pylint: disable=wrong-import-position

KEY = "a-key-for-tests"
PYTHON_VERSIONS = ("0.1.10", "1.1.1")
JAVASCRIPT_VERSION = "0.1.11"

if os.geteuid() != 0:
    skip("the native runtime is tested as root")

failed = False


def passed(title, argv, **kwargs):
    global failed  # pylint: disable=global-statement
    done = subprocess.run(argv, stdout=subprocess.PIPE, text=True, check=False, timeout=8 * DEADLINE,
                          **kwargs)
    sys.stdout.write(done.stdout)
    good = done.returncode == 0
    print(f"{'ok' if good else 'not ok'} {title} ran to its end", flush=True)
    failed |= not good or "not ok" in done.stdout


pythons = {version: clients.python(f"opensandbox=={version}") for version in PYTHON_VERSIONS}
node, modules = clients.node(f"@alibaba-group/opensandbox@{JAVASCRIPT_VERSION}")
if sys.argv[1:] == ["--fetch"]:
    sys.exit(0)

with tempfile.TemporaryDirectory(prefix="osb-clients-") as state:
    env = dict(os.environ, OPENSANDBOX_SERVER_API_KEY=KEY)
    with Program("opensandbox-server", "--state-dir", state, "--port", "0", "--kill-on-exit",
                 env=env) as server:
        domain = f"{server.host}:{server.port}"
        for version, python in pythons.items():
            for script in ("client_python.py", "client_python_sync.py"):
                passed(f"{script} {version}", [python, os.path.join(HERE, script), domain, KEY])
        passed("client_javascript.mjs", [node, os.path.join(HERE, "client_javascript.mjs"), domain, KEY,
                                         modules])
        code = server.stop()
        print(f"{'ok' if code == 0 else 'not ok'} the server leaves cleanly", flush=True)
        failed |= code != 0
sys.exit(1 if failed else 0)
