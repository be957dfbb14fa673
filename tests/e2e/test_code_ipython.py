#!/usr/bin/env python3
"""The cases of the code interpreter once more, with IPython in the image: streams, contexts, interrupts and cells that
misbehave are the same with it as without."""
# timeout: 1500

import os
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
API = os.path.join(os.path.dirname(HERE), "api")

import clients  # noqa: E402  pylint: disable=wrong-import-position

PACKAGES = ("ipython==8.37.0",)
python = clients.python(*PACKAGES)
failed = False
for name in ("test_execd_code.py", "test_execd_code_hostile.py"):
    done = subprocess.run([sys.executable, os.path.join(API, name), *sys.argv[1:]],
                          env=dict(os.environ, OSB_CODE_PYTHON=python), timeout=700, check=False)
    print(f"{'ok' if done.returncode == 0 else 'not ok'} {name} with IPython", flush=True)
    failed |= done.returncode != 0
sys.exit(1 if failed else 0)
