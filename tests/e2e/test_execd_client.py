#!/usr/bin/env python3
"""The official JavaScript client's adapters against a bare execd."""
# timeout: 300

import os
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(HERE), "api"))

import clients  # noqa: E402  pylint: disable=wrong-import-position
from harness import Program  # noqa: E402  pylint: disable=wrong-import-position

node, modules = clients.node("@alibaba-group/opensandbox@0.1.11")
with Program("execd", "--listen", "127.0.0.1:0", "--access-token", "secret") as execd:
    done = subprocess.run([node, os.path.join(HERE, "execd_javascript.mjs"), execd.url, "secret", modules],
                          stdout=subprocess.PIPE, text=True, check=False, timeout=200)
sys.stdout.write(done.stdout)
print("ok ran to its end" if done.returncode == 0 else "not ok ran to its end")
sys.exit(1 if done.returncode != 0 or "not ok" in done.stdout else 0)
