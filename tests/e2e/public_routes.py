"""What test_public_routes.py runs, in an environment with the official Python client and a reader of YAML."""

import os
import sys

import yaml

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
sys.path.insert(0, os.path.join(os.path.dirname(HERE), "api"))

from harness import case, main  # noqa: E402  pylint: disable=wrong-import-position
from publicapi import EGRESS, operations, shape  # noqa: E402  pylint: disable=wrong-import-position

PAIRS = (("lifecycle.yaml", "", ("lifecycle", "diagnostic")), ("lifecycle.yaml", EGRESS, ("egress",)),
         ("execd.yaml", "", ("execd",)))
METHODS = ("get", "post", "put", "patch", "delete")
# What follows is argued in docs/api-differences.md. Operations that are not offered:
ABSENT = {(method, path) for path, methods in (
    ("/templates", ("get", "post")), ("/templates/{}", ("get", "delete")),
    ("/sandboxes/{}/networkpolicy", ("get", "put", "patch", "delete")),
    ("/v1/isolated/session/{}/runs/{}", ("get",)), ("/v1/isolated/session/{}/runs/{}/logs", ("get",)),
) for method in methods}
# Those of which a wildcard of ours takes care:
WILDCARD = ("/v1/isolated/session/{}/files", "/v1/isolated/session/{}/directories", EGRESS + "/credential-vault")
# Statuses that the public description does not list, anywhere and by operation:
ANYWHERE = {401, 422, 503}
EXTRA = {
    ("post", "/sandboxes"): {404, 504},
    ("post", "/sandboxes/{}/pause"): {400},
    ("post", "/sandboxes/{}/snapshots"): {501},
    ("get", "/snapshots"): {501},
    ("get", "/snapshots/{}"): {501},
    ("delete", "/snapshots/{}"): {501},
    ("get", EGRESS + "/policy"): {404},
    ("patch", EGRESS + "/policy"): {404, 501},
    ("delete", EGRESS + "/policy"): {404, 501},
    ("get", "/files/info"): {400},
    ("delete", "/files"): {400},
    ("delete", "/directories"): {400},
    ("post", "/files/replace"): {404},
    ("post", "/files/permissions"): {404},
    ("get", "/files/download"): {304},
    ("post", "/v1/isolated/session"): {500},
    ("post", "/v1/isolated/session/{}/run"): {410},
    ("get", "/v1/isolated/session/{}/diff"): {404},
    ("post", "/v1/isolated/session/{}/commit"): {404},
}
# Success of a kind that is not there:
UNBUILT = {op for op, more in EXTRA.items() if 501 in more} | {
    ("post", "/v1/isolated/session/{}/run"),  # 202, of runs in the background
}


def ours(name):
    with open(os.path.join(ROOT, "api", name), encoding="utf-8") as f:
        paths = yaml.safe_load(f)["paths"]
    return {(method, shape(path)): {int(s) for s in item[method]["responses"] if str(s).isdigit()}
            for path, item in paths.items() for method in METHODS if method in item}


def both():
    for name, prefix, parts in PAIRS:
        there = {(method.lower(), path): op.statuses for (method, path), op in operations(parts, prefix).items()}
        here = ours(name)
        assert len(there) > 10, (name, there)
        yield there, here


@case
def every_public_route_is_here():
    missing = {(method, path) for there, here in both() for method, path in there
               if (method, path) not in here and not path.startswith(WILDCARD)}
    assert missing == ABSENT, missing ^ ABSENT


@case
def answers_that_the_public_description_lacks_are_known():
    found = {}
    for there, here in both():
        for op in there.keys() & here.keys():
            more = here[op] - there[op] - ANYWHERE
            if more:
                found[op] = more
    assert found == EXTRA, {op: (found.get(op), EXTRA.get(op)) for op in found.keys() | EXTRA.keys()
                            if found.get(op) != EXTRA.get(op)}


@case
def success_is_told_by_the_same_status():
    odd = set()
    for there, here in both():
        for op in there.keys() & here.keys():
            if {s for s in there[op] if s < 300} - here[op]:
                odd.add(op)
    assert odd == UNBUILT, odd ^ UNBUILT


main()
