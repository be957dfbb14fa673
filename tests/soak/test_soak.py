#!/usr/bin/env python3
"""Two minutes of tests/soak/run, which `make test-soak` runs for longer.
timeout: 900"""

import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
if os.geteuid() != 0:
    print("sandboxes are made by root here; run as root")
    sys.exit(77)
os.environ.setdefault("SOAK_SECONDS", "120")
os.environ.setdefault("SOAK_SEED", "11")  # the same choices in every run; those of `make test-soak` are new each time
os.execv(sys.executable, [sys.executable, os.path.join(HERE, "run")])
