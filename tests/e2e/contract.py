"""What test_contract.py runs, in an environment that can read YAML and judge by JSON Schema."""

import json
import os
import re
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
sys.path.insert(0, os.path.join(os.path.dirname(HERE), "api"))

# pylint: disable=wrong-import-position
from openapi_spec_validator import validate  # noqa: E402

import contract_execd  # noqa: E402
import contract_server  # noqa: E402
from garbage import Maker  # noqa: E402
from harness import BUILD, Reply, case, request, run_cases  # noqa: E402
from openapi import Api  # noqa: E402
from publicapi import EGRESS, Judge, shape  # noqa: E402
from serverlib import Server  # noqa: E402

EXAMPLES = int(os.environ.get("OSB_EXAMPLES", "24"))
SEED = int(os.environ.get("OSB_SEED", "1"))

BOX, POLICY = "/sandboxes/{id}", "/sandboxes/{id}/proxy/18080/policy"
PUBLIC_SERVER = {"": ("lifecycle", "diagnostic"), EGRESS: ("egress",)}


class Both(Api):
    """Ours, and the public description of the same routes as a second judge."""

    def __init__(self, path, public):
        super().__init__(path)
        self.public = Judge(public)

    def check(self, method, path, reply, to_head=False):
        super().check(method, path, reply, to_head)
        if not to_head:
            self.public.check(method, path, reply)


SERVER_API = Both(os.path.join(ROOT, "api", "lifecycle.yaml"), PUBLIC_SERVER)
EXECD_API = Both(os.path.join(ROOT, "api", "execd.yaml"), {"": ("execd",)})

# Differences of live answers from the public classes, each argued in docs/api-differences.md.
KNOWN = {
    "GET /sandboxes/{}/diagnostics/events 200: not JSON",
    "GET /sandboxes/{}/diagnostics/logs 200: not JSON",
    "GET /files/download 416: not JSON",
    "CodeContext: also cwd",
    "CommandStatusResponse: also signal",
    "CommandStatusResponse: also timed_out",
    "IsolatedCreateSessionResponse: also idle_timeout_seconds",
    "IsolatedCreateSessionResponse: also profile",
    "IsolatedCreateSessionResponse: also share_net",
    "IsolatedCreateSessionResponse: also uid_mode",
    "IsolatedCreateSessionResponse: also workspace",
    "Metrics: also cpu_used_percentage",
    "Metrics: also memory_total_in_mib",
    "Metrics: also memory_used_in_mib",
    "SessionState: also session_id",
}

# Documented answers that no test can bring about at will.
UNSEEN = (
    "POST /sandboxes/{id}/pause 400",  # a host without a freezer
)


# --- the tables ---


def table(program, command):
    """The rows of a Markdown table that a program prints."""
    out = subprocess.run([os.path.join(BUILD, program), command], stdout=subprocess.PIPE, text=True,
                         check=True).stdout
    return [[cell.strip().strip("`") for cell in line.strip("|").split("|")]
            for line in out.splitlines()[2:]]


def documented(api):
    """(METHOD, pattern) of every operation that a table of routes should have."""
    rows = set()
    for method, path in api.operations():
        item = api.spec["paths"][path]
        if not item.get("x-gateway"):
            rows.add(("ANY" if item.get("x-any-method") else method, item.get("x-route", path)))
    return rows


@case
def the_descriptions_are_openapi():
    for api in (SERVER_API, EXECD_API):
        validate(api.spec)


@case
def the_server_has_the_documented_routes_and_no_others():
    rows = {(method, path) for method, path, _ in table("opensandbox-server", "route-docs")}
    assert rows == documented(SERVER_API), rows ^ documented(SERVER_API)


@case
def the_server_has_the_documented_errors_and_no_others():
    rows = {(int(status), code) for status, code, _ in table("opensandbox-server", "error-docs")}
    listed = {(status, code) for status, codes in SERVER_API.spec["x-errors"].items() for code in codes}
    assert rows == listed, rows ^ listed


@case
def execd_has_the_documented_routes_and_no_others():
    with open(os.path.join(ROOT, "src", "execd", "api.c"), encoding="utf-8") as f:
        rows = set(re.findall(r'{ (?:H1|HTTP)_(\w+), "(/[^"]*)",', f.read()))
    assert len(rows) > 40, rows
    assert rows == documented(EXECD_API), rows ^ documented(EXECD_API)


# --- the answers ---


@case
def the_server_answers_as_documented():
    contract_server.walk(SERVER_API)


@case
def execd_answers_as_documented():
    contract_execd.walk(EXECD_API)


# --- garbage ---


def throw(api, program, maker, method, path, tame=lambda r: r, prefix="", fields=()):
    """Requests made up for one operation; each answer must be a documented one."""
    for made in maker.requests(method, path, EXAMPLES):
        made = tame(made)
        try:
            reply = request(program, made.method, prefix + made.target, made.body,
                            made.fields + list(fields))
            api.check(method, path, reply, to_head=method == "HEAD")
        except Exception as error:
            raise AssertionError(f"{made}: {error}") from error
        yield made, reply


@case
def garbage_to_the_server():
    with Server(key="a-key-for-tests") as server:
        key = [("OPEN-SANDBOX-API-KEY", server.key)]
        for method, path in SERVER_API.operations():
            box = server.make()
            maker = Maker(SERVER_API, f"{SEED} {method} {path}", {"id": box, "port": 44772})
            for made, reply in throw(SERVER_API, server, maker, method, path, fields=key):
                # a program that is not in the image is the one fault a request can bring about
                if reply.status == 500 and b"SANDBOX::START_FAILED" not in reply.body:
                    raise AssertionError(f"{made}: {reply.body!r}")
                if reply.status == 202 and path == "/sandboxes":
                    server.delete(json.loads(reply.body)["id"])
            server.delete(box)
            assert server.call("GET", "/health").status == 200


# Where a request would wait for something that never comes.
ENDLESS = {("GET", "/metrics/watch")}


def tame_command(made):
    """Nothing made up may wait for ever."""
    made.target = re.sub(r"follow=(true|1)", "follow=0", made.target)
    try:
        body = json.loads(made.body)
    except (ValueError, RecursionError):
        return made
    if isinstance(body, dict) and "command" in body and "timeout" not in body:
        made.body = json.dumps(dict(body, timeout=5000)).encode()
    return made


@case
def garbage_to_execd():
    """In a sandbox: what is made up may well delete something. So the gateway may refuse it first."""
    for status, codes in SERVER_API.errors.items():
        EXECD_API.errors.setdefault(status, set()).update(codes)
    with Server() as server:
        for method, path in EXECD_API.operations():
            if (method, path) in ENDLESS:
                continue
            box = server.make()
            prefix, token = server.endpoint(box)
            names = contract_execd.names(server, prefix, token)
            maker = Maker(EXECD_API, f"{SEED} {method} {path}", names)
            for made, reply in throw(EXECD_API, server, maker, method, path, tame_command, prefix, token):
                if reply.status >= 500 and b"out of memory" in reply.body:
                    raise AssertionError(f"{made}: {reply.body!r}")
            assert server.call("GET", prefix + "/ping", fields=token).status == 200, (method, path)
            assert server.delete(box).status == 204


@case
def every_documented_answer_was_seen():
    if len(sys.argv) > 1:
        return  # not all cases ran
    unseen = SERVER_API.unseen(UNSEEN) + EXECD_API.unseen(UNSEEN)
    assert not unseen, "documented, but never seen: " + ", ".join(unseen)


@case
def live_answers_are_those_of_the_public_descriptions():
    if len(sys.argv) > 1:
        return
    for api in (SERVER_API, EXECD_API):
        here = {(method, shape(path)) for method, path in api.operations()}
        unjudged = api.public.operations.keys() & here - api.public.judged
        assert not unjudged, unjudged
    found = SERVER_API.public.found | EXECD_API.public.found
    assert found == KNOWN, found ^ KNOWN


@case
def the_second_judge_can_say_no():
    good = {"id": "x", "status": {"state": "Running"}, "entrypoint": ["a"], "createdAt": "2026-01-01T00:00:00.5Z",
            "metadata": {"a": "b"}, "image": {"uri": "host"}}
    lacking = {name: value for name, value in good.items() if name != "status"}
    policy = {"status": "ok", "policy": {"defaultAction": "allow"}}
    for path, sent, said in (
            (BOX, good, None), (BOX, lacking, "KeyError: 'status'"), (BOX, {**good, "id": 7}, "Sandbox.id: int"),
            (BOX, {**good, "entrypoint": ["a", 1]}, "Sandbox.entrypoint: list"), (BOX, {**good, "x": 1}, "also x"),
            (BOX, {**good, "metadata": {"a": 1}}, "SandboxMetadata.additional_properties: dict"),
            (BOX, {**good, "createdAt": "soon"}, "ValueError"), (BOX, [], "Error"),
            (POLICY, policy, None), (POLICY, {**policy, "x": 1}, "PolicyStatusResponse: lost ['x']"),
            (POLICY, {"policy": {"defaultAction": "perhaps"}}, "ValueError")):
        judge = Judge(PUBLIC_SERVER)
        judge.check("GET", path, Reply(200, "OK", [], json.dumps(sent).encode()))
        words = " ".join(judge.found)
        assert judge.judged and (said in words if said else not words), (path, sent, said, words)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory(prefix="osb-contract-") as directory:
        os.chdir(directory)
        sys.exit(1 if run_cases(sys.argv[1] if len(sys.argv) > 1 else None) else 0)
