#!/usr/bin/env python3
"""api/*.yaml beside the public descriptions of the protocol, as the official client carries them: the same routes, and
no difference that is not known."""
# timeout: 300

import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)

import clients  # noqa: E402  pylint: disable=wrong-import-position

PYTHON = clients.python("opensandbox==1.1.1", "PyYAML==6.0.2")

os.execv(PYTHON, [PYTHON, os.path.join(HERE, "public_routes.py"), *sys.argv[1:]])
