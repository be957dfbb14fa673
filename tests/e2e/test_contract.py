#!/usr/bin/env python3
"""api/*.yaml against the programs: the same routes, the same answers, and no surprise on garbage. Each live answer is
also read by the classes that the official client has of the public descriptions.

OSB_EXAMPLES=N makes up N requests per operation instead of the default; OSB_SEED=N others.
"""
# timeout: 600

import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)

import clients  # noqa: E402  pylint: disable=wrong-import-position

PYTHON = clients.python("PyYAML==6.0.2", "jsonschema==4.23.0", "referencing==0.35.1",
                        "rfc3339-validator==0.1.4", "openapi-spec-validator==0.7.1", "opensandbox==1.1.1")

os.execv(PYTHON, [PYTHON, os.path.join(HERE, "contract.py"), *sys.argv[1:]])
