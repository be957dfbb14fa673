#!/usr/bin/env python3
"""The lifecycle API, route by route, against a live server, runner and execd."""
# timeout: 600

import concurrent.futures
import datetime
import re
import time

from harness import case, run_cases
from serverlib import KEEP, Reader, Server, is_error, json, os, shutil, soon, sys, tempfile, until

HOST_DIR = tempfile.mkdtemp(prefix="osb-volume-")
server = Server("--set", f"storage.allowed_host_paths={HOST_DIR}",
                "--set", "server.max_sandbox_timeout_seconds=86400",
                "--set", "server.max_sandboxes=60")
UUID4 = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$")
UNKNOWN = "11111111-1111-4111-8111-111111111111"


def when(text):
    return datetime.datetime.fromisoformat(text.replace("Z", "+00:00"))


# --- the front ---

@case
def health_and_readiness():
    assert server.call("GET", "/health").json == {"status": "healthy"}
    assert server.call("GET", "/readyz").json["status"] == "ready"


@case
def errors_have_one_envelope():
    is_error(server.call("GET", "/nowhere"), 404, "NOT_FOUND")
    is_error(server.call("GET", "/v1/nowhere"), 404, "NOT_FOUND")
    a = server.call("PUT", "/v1/sandboxes", {})
    is_error(a, 405, "METHOD_NOT_ALLOWED")
    assert set(a.get("Allow").split(", ")) == {"GET", "POST"}, a.get("Allow")
    is_error(server.call("GET", f"/v1/sandboxes/{UNKNOWN}"), 404, "SANDBOX::NOT_FOUND")


@case
def request_id_is_echoed_or_made():
    a = server.call("GET", f"/v1/sandboxes/{UNKNOWN}", fields=[("X-Request-ID", " my-id-1 ")])
    assert a.get("X-Request-ID") == "my-id-1"
    assert UUID4.match(server.call("GET", "/health").get("X-Request-ID"))
    long = server.call("GET", "/health", fields=[("X-Request-ID", "x" * 500)])
    assert UUID4.match(long.get("X-Request-ID"))


@case
def pages_of_this_machine_may_call_and_others_may_not():
    ask = [("Access-Control-Request-Method", "POST"), ("Access-Control-Request-Headers", "a, b")]
    a = server.call("OPTIONS", "/v1/sandboxes", fields=[("Origin", "http://localhost:3000"), *ask])
    assert a.status == 200 and a.get("Access-Control-Allow-Origin") == "http://localhost:3000"
    assert a.get("Access-Control-Allow-Headers") == "a, b"
    a = server.call("OPTIONS", "/v1/sandboxes", fields=[("Origin", "https://evil.example"), *ask])
    assert a.get("Access-Control-Allow-Origin") is None
    a = server.call("GET", "/health", fields=[("Origin", "https://evil.example")])
    assert a.get("Access-Control-Allow-Origin") is None and a.get("Vary") == "Origin"


@case
def a_foreign_host_name_is_refused_without_a_key():
    with server.connect() as s:
        s.sendall(b"GET /v1/sandboxes HTTP/1.1\r\nHost: rebound.example\r\n\r\n")
        assert s.recv(100).startswith(b"HTTP/1.1 403 ")
    # names that look like an address of this machine belong to whoever owns the domain
    for name, status in (("127.evil.example", 403), ("127.0.0.1.evil.example:80", 403), ("localhost.evil", 403),
                         ("127.0.0.1", 200), ("127.8.9.10:80", 200), ("[::1]:80", 200), ("LocalHost", 200)):
        with server.connect() as s:
            s.sendall(f"GET /v1/sandboxes HTTP/1.1\r\nHost: {name}\r\n\r\n".encode())
            assert Reader(s).reply().status == status, name
        origin = server.call("GET", "/health", fields=[("Origin", "http://" + name)])
        allowed = origin.get("Access-Control-Allow-Origin")
        assert (allowed == "http://" + name) == (status == 200), (name, allowed)


@case
def every_route_works_without_v1():
    sandbox = server.make()
    assert server.call("GET", f"/sandboxes/{sandbox}").json["id"] == sandbox
    assert any(i["id"] == sandbox for i in server.call("GET", "/sandboxes").json["items"])
    assert server.call("DELETE", f"/sandboxes/{sandbox}").status == 204


# --- create ---

@case
def create_answers_as_documented():
    a = server.create(metadata={"project": "apollo"}, timeout=120)
    assert a.status == 202
    j = a.json
    assert UUID4.match(j["id"]), j["id"]
    assert j["status"]["state"] == "Running" and j["entrypoint"] == KEEP
    assert j["metadata"] == {"project": "apollo"}
    assert "image" not in j and "platform" not in j
    assert abs((when(j["expiresAt"]) - when(j["createdAt"])).total_seconds() - 120) < 0.01
    assert a.get("Location") == f"/v1/sandboxes/{j['id']}"
    got = server.info(j["id"]).json
    assert got["image"] == {"uri": "host"} and got["createdAt"] == j["createdAt"]
    assert got["expiresAt"] == j["expiresAt"] and got["status"]["state"] == "Running"
    server.delete(j["id"])


@case
def manual_cleanup_has_no_expiry():
    for timeout in (..., None):
        j = server.create(timeout=timeout).json
        assert "expiresAt" not in j, j
        is_error(server.call("POST", f"/v1/sandboxes/{j['id']}/renew-expiration",
                             {"expiresAt": soon(100)}), 409, "SANDBOX::INVALID_EXPIRATION")
        server.delete(j["id"])


@case
def snake_case_and_nulls_are_accepted():
    a = server.call("POST", "/v1/sandboxes", {
        "image": {"uri": "host", "auth": None}, "entrypoint": KEEP, "timeout": "60",
        "resource_limits": {"memory": "64Mi"}, "env": {"A": None, "B": ""}, "metadata": None,
        "networkPolicy": None, "credentialProxy": {"enabled": False}, "volumes": None,
        "snapshotId": "", "extensions": {}, "unknownMember": [1, 2]})
    assert a.status == 202, a.body
    server.delete(a.json["id"])


@case
def environment_and_entrypoint_reach_the_sandbox():
    sandbox = server.make(env={"GREETING": "hello world", "GONE": None}, entrypoint=[
        "/bin/sh", "-c", "echo started with $GREETING; exec tail -f /dev/null"])
    assert server.run(sandbox, "echo $GREETING${GONE-unset}") == "hello worldunset"
    until(lambda: "started with hello world" in server.call(
        "GET", f"/v1/sandboxes/{sandbox}/diagnostics/logs").body.decode(), "the entrypoint's line")
    server.delete(sandbox)


SCHEMA_FAULTS = {
    "no body": (None, "body"),
    "an array": ([], "body"),
    "no image": ({"image": ...}, "body"),
    "blank image": ({"image": {"uri": " "}}, "body"),
    "image and snapshot": ({"snapshotId": "x"}, "body"),
    "image is a string": ({"image": "host"}, "body.image"),
    "auth without password": ({"image": {"uri": "host", "auth": {"username": "u"}}},
                              "body.image.auth"),
    "no entrypoint": ({"entrypoint": ...}, "body.entrypoint"),
    "empty entrypoint": ({"entrypoint": []}, "body.entrypoint"),
    "number in entrypoint": ({"entrypoint": ["a", 1]}, "body.entrypoint.1"),
    "no limits": ({"resourceLimits": ...}, "body.resourceLimits"),
    "limit is a number": ({"resourceLimits": {"cpu": 1}}, "body.resourceLimits.cpu"),
    "timeout too short": ({"timeout": 59}, "body.timeout"),
    "timeout zero": ({"timeout": 0}, "body.timeout"),
    "timeout negative": ({"timeout": -5}, "body.timeout"),
    "timeout a fraction": ({"timeout": 60.5}, "body.timeout"),
    "env value a number": ({"env": {"A": 1}}, "body.env.A"),
    "metadata value a number": ({"metadata": {"a": 1}}, "body.metadata.a"),
    "extension a number": ({"extensions": {"a": 1}}, "body.extensions.a"),
    "platform without arch": ({"platform": {"os": "linux"}}, "body.platform"),
    "volume without backend": ({"volumes": [{"name": "v", "mountPath": "/v"}]}, "body.volumes.0"),
    "volume with two": ({"volumes": [{"name": "v", "mountPath": "/v", "host": {"path": "/x"},
                                      "pvc": {"claimName": "c"}}]}, "body.volumes.0"),
    "volume with a bad name": ({"volumes": [{"name": "V_", "mountPath": "/v",
                                             "pvc": {"claimName": "c"}}]}, "body.volumes.0"),
    "relative mount path": ({"volumes": [{"name": "v", "mountPath": "v",
                                          "pvc": {"claimName": "c"}}]}, "body.volumes.0"),
    "claim with a slash": ({"volumes": [{"name": "v", "mountPath": "/v",
                                         "pvc": {"claimName": "../c"}}]}, "body.volumes.0"),
}


@case
def schema_faults_are_422_and_name_the_place():
    for name, (change, place) in SCHEMA_FAULTS.items():
        if isinstance(change, dict):
            a = server.create(**change)
        else:
            a = server.call("POST", "/v1/sandboxes", change) if change is not None else \
                server.call("POST", "/v1/sandboxes")
        assert a.status == 422, (name, a.status, a.body)
        assert a.json["code"] == "INVALID_REQUEST", (name, a.json)
        assert ".".join(a.json["detail"][0]["loc"]) == place, (name, a.json)
    assert server.list(state="Pending")["items"] == []


@case
def bodies_must_be_json_and_say_so():
    body = json.dumps({"image": {"uri": "host"}}).encode()
    for fields in ([], [("Content-Type", "text/plain")]):
        a = server.call("POST", "/v1/sandboxes", raw=body, fields=fields)
        assert a.status == 422, a.body
    a = server.call("POST", "/v1/sandboxes", raw=b'{"image":', fields=[
        ("Content-Type", "application/json; charset=utf-8")])
    assert a.status == 422, a.body
    is_error(server.call("POST", "/v1/sandboxes", raw=b"x" * (1 << 20) + b"x",
                         fields=[("Content-Type", "application/json")]),
             413, "PAYLOAD_TOO_LARGE")


REFUSALS = {
    "unknown image": ({"image": {"uri": "no-such:image"}}, 404, "SANDBOX::IMAGE_NOT_FOUND"),
    "directory image": ({"image": {"uri": "dir:/etc"}}, 400, "SANDBOX::INVALID_PARAMETER"),
    "unreadable memory": ({"resourceLimits": {"memory": "lots"}}, 400,
                          "SANDBOX::INVALID_RESOURCE_LIMIT"),
    "no memory": ({"resourceLimits": {"memory": "0"}}, 400, "SANDBOX::INVALID_RESOURCE_LIMIT"),
    "unreadable cpu": ({"resourceLimits": {"cpu": "nan"}}, 400, "SANDBOX::INVALID_RESOURCE_LIMIT"),
    "too fine cpu": ({"resourceLimits": {"cpu": "0.0001"}}, 400,
                     "SANDBOX::INVALID_RESOURCE_LIMIT"),
    "gpu": ({"resourceLimits": {"gpu": "1"}}, 400, "SANDBOX::INVALID_RESOURCE_LIMIT"),
    "unknown limit": ({"resourceLimits": {"quarks": "1"}}, 400, "SANDBOX::INVALID_RESOURCE_LIMIT"),
    "little memory": ({"resourceLimits": {"memory": "1Mi"}}, 400, "SANDBOX::INVALID_RESOURCE_LIMIT"),
    "network policy": ({"networkPolicy": {"defaultAction": "deny"}}, 400,
                       "SANDBOX::NETWORK_POLICY_NOT_SUPPORTED"),
    "empty network policy": ({"networkPolicy": {}}, 400, "SANDBOX::NETWORK_POLICY_NOT_SUPPORTED"),
    "credential proxy": ({"credentialProxy": {"enabled": True}}, 400,
                         "SANDBOX::CREDENTIAL_PROXY_NOT_SUPPORTED"),
    "pool": ({"extensions": {"poolRef": "p"}}, 400, "SANDBOX::UNSUPPORTED_POOL_REF"),
    "renewal too short": ({"extensions": {"access.renew.extend.seconds": "299"}}, 400,
                          "SANDBOX::INVALID_PARAMETER"),
    "renewal unreadable": ({"extensions": {"access.renew.extend.seconds": "1h"}}, 400,
                           "SANDBOX::INVALID_PARAMETER"),
    "snapshot": ({"image": ..., "snapshotId": "s"}, 404, "SNAPSHOT::NOT_FOUND"),
    "windows": ({"platform": {"os": "windows", "arch": "amd64"}}, 400,
                "SANDBOX::INVALID_PARAMETER"),
    "other machine": ({"platform": {"os": "linux", "arch": "s390x"}}, 400,
                      "SANDBOX::INVALID_PARAMETER"),
    "long timeout": ({"timeout": 86401}, 400, "SANDBOX::INVALID_PARAMETER"),
    "reserved label": ({"metadata": {"opensandbox.io/id": "x"}}, 400,
                       "SANDBOX::INVALID_METADATA_LABEL"),
    "label with blanks": ({"metadata": {"a": "b c"}}, 400, "SANDBOX::INVALID_METADATA_LABEL"),
    "long label": ({"metadata": {"a": "b" * 64}}, 400, "SANDBOX::INVALID_METADATA_LABEL"),
    "bad variable": ({"env": {"A=B": "c"}}, 400, "SANDBOX::INVALID_PARAMETER"),
}


@case
def what_would_not_be_done_is_refused():
    for name, (change, status, code) in REFUSALS.items():
        a = server.create(**change)
        assert (a.status, a.json.get("code")) == (status, code), (name, a.status, a.body)


@case
def platform_of_this_machine_is_echoed():
    arch = {"x86_64": "amd64", "aarch64": "arm64"}[os.uname().machine]
    a = server.create(platform={"os": " Linux", "arch": arch.upper()})
    assert a.json["platform"] == {"os": "linux", "arch": arch}, a.body
    server.delete(a.json["id"])


@case
def memory_limit_holds():
    sandbox = server.make(resourceLimits={"memory": "64Mi"})
    a = server.execd(sandbox, "POST", "/command", {
        "command": "python3 -c 'x = bytearray(200 << 20); print(len(x))'"})
    assert b"209715200" not in a.body, a.body
    server.delete(sandbox)


@case
def what_every_list_shows_is_bounded():
    """The largest sandbox there can be, two hundred times over, fits one page."""
    for more, code, name in (({"entrypoint": ["sh", "x" * (160 << 10)]}, "SANDBOX::INVALID_PARAMETER", "entrypoint"),
                             ({"entrypoint": ["sh", "\1" * (100 << 10)]}, "SANDBOX::INVALID_PARAMETER", "entrypoint"),
                             ({"extensions": {"k": "x" * (32 << 10)}}, "SANDBOX::INVALID_PARAMETER", "extensions"),
                             ({"image": {"uri": "x" * 4097}}, "SANDBOX::INVALID_PARAMETER", "image.uri"),
                             ({"metadata": {f"k{n}": "v" * 60 for n in range(1000)}},
                              "SANDBOX::INVALID_METADATA_LABEL", "metadata")):
        a = server.create(**more)
        is_error(a, 400, code)
        assert a.json["message"].startswith(name + " is more than "), a.json
    argument = "x" * (63 << 10)
    largest = {"entrypoint": ["sh", "-c", "exit 0", "\1" * (5 << 10), argument, argument],
               "metadata": {f"k{n}": "v" * 60 for n in range(900)}, "extensions": {"k": "x" * (31 << 10)},
               "image": {"uri": "\1" * 4096}}
    with Server("--set", "images.default=host", "--set", "store.max_ended=1000",
                "--set", "store.retention_seconds=86400") as s:
        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            answers = list(pool.map(lambda _: s.create(**largest), range(200)))
        assert {a.status for a in answers} == {202}, answers[0].body[:500]
        a = s.call("GET", "/v1/sandboxes?pageSize=200")
        assert a.status == 200 and len(a.body) > 50e6, (a.status, len(a.body))
        assert {i["id"] for i in a.json["items"]} == {a.json["id"] for a in answers}
        assert a.json["pagination"] == {"page": 1, "pageSize": 200, "totalItems": 200, "totalPages": 1,
                                        "hasNextPage": False}


# --- volumes ---

def volume(name="v", mount="/data", **source):
    return {"name": name, "mountPath": mount, **source}


VOLUME_FAULTS = {
    "not allowed": (volume(host={"path": "/etc"}), "VOLUME::HOST_PATH_NOT_ALLOWED"),
    "dots": (volume(host={"path": HOST_DIR + "/../etc"}), "VOLUME::INVALID_HOST_PATH"),
    "trailing slash": (volume(host={"path": HOST_DIR + "/"}), "VOLUME::INVALID_HOST_PATH"),
    "missing": (volume(host={"path": HOST_DIR + "/nothing"}), "VOLUME::HOST_PATH_NOT_FOUND"),
    "sub path up": (volume(host={"path": HOST_DIR}, subPath="../x"), "VOLUME::INVALID_SUB_PATH"),
    "sub path absolute": (volume(host={"path": HOST_DIR}, subPath="/x"),
                          "VOLUME::INVALID_SUB_PATH"),
    "sub path long": (volume(pvc={"claimName": "long"}, subPath="/".join(["d" * 200] * 3)),
                      "VOLUME::INVALID_SUB_PATH"),
    "sub path very long": (volume(pvc={"claimName": "long"}, subPath="/".join(["d" * 200] * 500)),
                           "VOLUME::INVALID_SUB_PATH"),
    "on /proc": (volume(mount="/proc/x", host={"path": HOST_DIR}), "VOLUME::INVALID_MOUNT_PATH"),
    "on dots": (volume(mount="/a/../b", host={"path": HOST_DIR}), "VOLUME::INVALID_MOUNT_PATH"),
    "no such claim": (volume(pvc={"claimName": "absent", "createIfNotExists": False}),
                      "VOLUME::PVC_NOT_FOUND"),
    "size": (volume(pvc={"claimName": "c", "storage": "1Giga"}), "VOLUME::INVALID_STORAGE"),
    "small": (volume(pvc={"claimName": "c", "storage": "1Mi"}), "VOLUME::INVALID_STORAGE"),
    "huge": (volume(pvc={"claimName": "c", "storage": "8Ei"}), "VOLUME::INVALID_STORAGE"),
    "on what is read-only": (volume(mount="/usr/no/such", host={"path": HOST_DIR}), "VOLUME::INVALID_MOUNT_PATH"),
    "ossfs": (volume(ossfs={"bucket": "abc"}), "VOLUME::UNSUPPORTED_BACKEND"),
}


@case
def volumes_that_cannot_be_had_are_refused():
    for name, (v, code) in VOLUME_FAULTS.items():
        a = server.create(volumes=[v])
        assert a.status == 400 and a.json["code"] == code, (name, a.status, a.body)
    a = server.create(volumes=[volume(host={"path": HOST_DIR}),
                               volume(mount="/b", host={"path": HOST_DIR})])
    is_error(a, 400, "VOLUME::DUPLICATE_NAME")


@case
def a_link_on_an_allowed_path_leads_nowhere():
    link = os.path.join(HOST_DIR, "link")
    os.symlink("/etc", link)
    a = server.create(volumes=[volume(host={"path": link})])
    assert a.status >= 400, a.body
    a = server.create(volumes=[volume(host={"path": HOST_DIR}, subPath="link/ssl")])
    assert a.status >= 400, a.body
    os.unlink(link)


@case
def a_volume_holds_what_it_was_made_for_and_no_more():
    claim = {"claimName": "sized", "storage": "24Mi"}
    fill = "dd if=/dev/zero of=/data/fill bs=1M count=64 2>&1 | grep -c 'No space'; stat -c %s /data/fill"
    first, second = (server.make(volumes=[volume("v", "/data", pvc=claim)]) for _ in range(2))
    full, size = server.run(first, fill).split()
    assert full == "1" and 8 << 20 < int(size) < 24 << 20, (full, size)
    # all see one file system, and the same one later, whether the size is said again or not
    assert server.run(second, "stat -c %s /data/fill; rm /data/fill; mkdir /data/d; echo kept > /data/d/x") == size
    assert server.run(first, "ls /data").split() == ["d"]
    for sandbox in (first, second):
        assert server.delete(sandbox).status == 204
    sandbox = server.make(volumes=[volume("v", "/data", pvc={"claimName": "sized"}),
                                   volume("w", "/part", pvc=claim, subPath="d", readOnly=True)])
    assert server.run(sandbox, "cat /data/d/x /part/x; touch /part/y 2>&1 | grep -c Read-only").split() == [
        "kept", "kept", "1"]
    for other in ({"claimName": "sized", "storage": "32Mi"}, {"claimName": "sized", "storage": "16Mi"}):
        is_error(server.create(volumes=[volume("v", "/data", pvc=other)]), 400, "VOLUME::INVALID_STORAGE")
    assert server.delete(sandbox).status == 204
    # one that was made without a size and is in use does not get one
    sandbox = server.make(volumes=[volume("v", "/data", pvc={"claimName": "unsized"})])
    server.run(sandbox, "touch /data/x")
    is_error(server.create(volumes=[volume("v", "/data", pvc={"claimName": "unsized", "storage": "16Mi"})]), 400,
             "VOLUME::INVALID_STORAGE")
    assert server.delete(sandbox).status == 204


def volumes_there():
    """Names on disk; what is being swept has none that a volume can have."""
    return {name for name in os.listdir(os.path.join(server.state, "volumes")) if name[0].isalnum()}


@case
def a_create_that_fails_leaves_no_volume_that_it_made():
    before = volumes_there()
    kept = volume("k", "/k", pvc={"claimName": "has-been-used"})
    assert server.delete(server.make(volumes=[kept])).status == 204
    new = volume("n", "/n", pvc={"claimName": "made-in-vain"})
    for fault in (volume("f", "/usr/no/such", pvc={"claimName": "nowhere-to-go"}),  # the runtime finds out
                  volume("f", "/f", pvc={"claimName": "absent", "createIfNotExists": False}),  # before it is asked
                  volume("f", "/f", pvc={"claimName": "too-large", "storage": "4Ei"})):
        a = server.create(volumes=[kept, new, fault])
        assert a.status in (400, 500, 503), (a.status, a.body)
        until(lambda: volumes_there() == before | {"has-been-used"}, "what it made to go")
    # what another sandbox uses stays, whoever made it and whichever ends first
    bad, good = [new, volume("f", "/usr/no/such", pvc={"claimName": "nowhere-to-go"})], [new]
    for _ in range(10):
        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            answers = list(pool.map(lambda v: server.create(volumes=v), (bad, good, bad, bad)))
        assert [a.status for a in answers] == [400, 202, 400, 400], [a.body for a in answers]
        sandbox = answers[1].json["id"]
        assert server.run(sandbox, "echo kept > /n/file; cat /n/file") == "kept"
        assert server.delete(sandbox).status == 204
        assert "made-in-vain" in volumes_there()
        assert open(os.path.join(server.state, "volumes", "made-in-vain", "file"), encoding="ascii").read() == "kept\n"
        shutil.rmtree(os.path.join(server.state, "volumes", "made-in-vain"))


@case
def a_default_size_is_for_new_volumes():
    """Those that are there stay as they are, with another size or with none."""
    def used(s, *claims):
        box = s.make(volumes=[volume(c, f"/{c}", pvc={"claimName": c}) for c in claims])
        sizes = s.run(box, "; ".join(f"df -k --output=size /{c} | tail -1; touch /{c}/x" for c in claims)).split()
        assert s.delete(box).status == 204
        return [int(kib) for kib in sizes]

    with Server("--set", "storage.volume_default_size=20Mi") as s:
        assert used(s, "small")[0] < 20 << 10
        claim = {"claimName": "large", "storage": "64Mi"}
        s.delete(s.make(volumes=[volume("v", "/v", pvc=claim)]))
        large = used(s, "large")[0]
        assert 32 << 10 < large < 64 << 10
        # as if made before there was a default
        os.makedirs(os.path.join(s.state, "volumes", "old", "data"))
        assert used(s, "old")[0] > 1 << 20
        assert used(s, "small", "large") == [*used(s, "small"), large]


@case
def a_volume_with_a_size_that_goes_with_its_sandbox_is_empty_the_next_time():
    claim = {"claimName": "passing", "storage": "16Mi", "deleteOnSandboxTermination": True}
    disk = os.path.join(server.state, "volume-disks", "passing")
    for _ in range(3):
        sandbox = server.make(volumes=[volume("v", "/data", pvc=claim)])
        assert server.run(sandbox, "ls /data; echo secret > /data/x") == ""
        assert os.path.exists(disk)
        assert server.delete(sandbox).status == 204
    until(lambda: not os.path.exists(disk), "its disk is gone")


@case
def python_contexts_in_a_sandbox_come_from_their_template():
    sandbox = server.make(env={"EXECD_WARM": "python", "EXECD_PYTHON_PRELOAD": "decimal"})

    def preloaded():
        context = server.execd(sandbox, "POST", "/code/context", {"language": "python"}).json
        a = server.execd(sandbox, "POST", "/code", {"code": "import sys; print('decimal' in sys.modules)",
                                                     "context": context})
        return b'"text":"True' in a.body

    until(preloaded, "the template has come up")
    assert server.delete(sandbox).status == 204


@case
def host_volumes_are_shared_and_read_only_ones_are_not_written():
    os.makedirs(os.path.join(HOST_DIR, "sub"), exist_ok=True)
    sandbox = server.make(volumes=[
        volume("rw", "/rw", host={"path": HOST_DIR}),
        volume("ro", "/mnt/ro", host={"path": HOST_DIR}, readOnly=True),
        volume("sub", "/sub", host={"path": HOST_DIR}, subPath="sub")])
    server.run(sandbox, "echo from inside > /rw/file && echo x > /sub/y")
    with open(os.path.join(HOST_DIR, "file"), encoding="ascii") as f:
        assert f.read() == "from inside\n"
    assert os.path.exists(os.path.join(HOST_DIR, "sub", "y"))
    assert server.run(sandbox, "cat /mnt/ro/file") == "from inside"
    a = server.execd(sandbox, "POST", "/command", {"command": "echo no > /mnt/ro/file"})
    assert b"CommandExecError" in a.body, a.body
    server.delete(sandbox)


@case
def named_volumes_outlive_their_sandbox_unless_they_are_not_to():
    keep = volume("k", "/keep", pvc={"claimName": "kept"})
    gone = volume("g", "/gone", pvc={"claimName": "going", "deleteOnSandboxTermination": True})
    first = server.make(volumes=[keep, gone])
    second = server.make(volumes=[gone])
    server.run(first, "echo 1 > /keep/a && echo 2 > /gone/b && "
                      "mkdir -p /gone/deep/er && echo 3 > /gone/deep/er/c && chown -R 7 /gone")
    assert server.run(second, "cat /gone/b") == "2"
    server.delete(first)
    assert os.path.exists(os.path.join(server.state, "volumes", "going", "b"))
    server.delete(second)
    until(lambda: not any("go" in name for name in os.listdir(os.path.join(server.state, "volumes"))), "it to go")
    third = server.make(volumes=[keep])
    assert server.run(third, "cat /keep/a") == "1"
    server.delete(third)


# --- look and change ---

@case
def list_filters_and_pages():
    ids = [server.make(metadata={"run": "list", "n": str(i)}) for i in range(3)]
    page = server.list(metadata="run=list")
    assert [i["id"] for i in page["items"]] == ids[::-1]
    assert page["pagination"] == {"page": 1, "pageSize": 20, "totalItems": 3, "totalPages": 1,
                                  "hasNextPage": False}
    page = server.list(metadata="run=list", pageSize=2)
    assert len(page["items"]) == 2 and page["pagination"]["hasNextPage"] is True
    page = server.list(metadata="run=list", pageSize=2, page=2)
    assert [i["id"] for i in page["items"]] == ids[:1] and not page["pagination"]["hasNextPage"]
    assert server.list(metadata="run=list", page=99)["items"] == []
    assert [i["id"] for i in server.list(metadata="run=list&n=1")["items"]] == [ids[1]]
    assert [i["id"] for i in server.list(metadata="run%3Dlist%26n%3D1".replace("%26", "&"))
            ["items"]] == [ids[1]]
    assert server.list(metadata="run=list&n=9")["items"] == []
    assert len(server.list(metadata="run=list", state=["paused", "RUNNING"])["items"]) == 3
    assert server.list(metadata="run=list", state="Paused")["items"] == []
    assert server.list(metadata="run=list", state="")["items"] == []
    is_error(server.call("GET", "/v1/sandboxes?metadata=nonsense"), 400, "INVALID_METADATA_FORMAT")
    for query in ("page=0", "pageSize=0", "pageSize=201", "page=x"):
        is_error(server.call("GET", "/v1/sandboxes?" + query), 422, "INVALID_REQUEST")
    for i in ids:
        server.delete(i)
    assert server.list(metadata="run=list")["items"] == []
    assert len(server.list(metadata="run=list", state="Terminated")["items"]) == 3


@case
def metadata_is_merge_patched():
    sandbox = server.make(metadata={"a": "1", "b": "2"})
    path = f"/v1/sandboxes/{sandbox}/metadata"
    a = server.call("PATCH", path, {"a": None, "b": "3", "c": "4", "absent": None})
    assert a.status == 200 and a.json["metadata"] == {"b": "3", "c": "4"}, a.body
    assert a.json["id"] == sandbox and "image" in a.json
    assert server.call("PATCH", path, {}).json["metadata"] == {"b": "3", "c": "4"}
    is_error(server.call("PATCH", path, {"opensandbox.io/x": None}), 400,
             "SANDBOX::INVALID_METADATA_LABEL")
    is_error(server.call("PATCH", path, {"x": "a b"}), 400, "SANDBOX::INVALID_METADATA_LABEL")
    is_error(server.call("PATCH", path, {"x": 1}), 422, "INVALID_REQUEST")
    is_error(server.call("PATCH", f"/v1/sandboxes/{UNKNOWN}/metadata", {}), 404,
             "SANDBOX::NOT_FOUND")
    assert server.info(sandbox).json["metadata"] == {"b": "3", "c": "4"}
    server.delete(sandbox)


@case
def metadata_does_not_grow_without_end():
    many = {f"key-{i}": "v" * 60 for i in range(700)}
    is_error(server.create(metadata={**many, **{f"more-{i}": "v" * 60 for i in range(700)}}), 400,
             "SANDBOX::INVALID_METADATA_LABEL")
    sandbox = server.make(metadata=many)
    path = f"/v1/sandboxes/{sandbox}/metadata"
    for _ in range(3):
        is_error(server.call("PATCH", path, {f"more-{i}": "v" * 60 for i in range(700)}), 400,
                 "SANDBOX::INVALID_METADATA_LABEL")
        assert server.info(sandbox).json["metadata"] == many
    a = server.call("PATCH", path, {**dict.fromkeys(many), "few": "left"})
    assert a.status == 200 and a.json["metadata"] == {"few": "left"}, a.body[:300]
    server.delete(sandbox)


@case
def renew_goes_both_ways():
    sandbox = server.make(timeout=600)
    path = f"/v1/sandboxes/{sandbox}/renew-expiration"
    for seconds in (5000, 300):
        a = server.call("POST", path, {"expiresAt": soon(seconds)})
        assert a.status == 200 and list(a.json) == ["expiresAt"], a.body
        assert server.info(sandbox).json["expiresAt"] == a.json["expiresAt"]
    is_error(server.call("POST", path, {"expiresAt": soon(-1)}), 400,
             "SANDBOX::INVALID_EXPIRATION")
    is_error(server.call("POST", path, {"expiresAt": "tomorrow"}), 422, "INVALID_REQUEST")
    is_error(server.call("POST", path, {}), 422, "INVALID_REQUEST")
    is_error(server.call("POST", f"/v1/sandboxes/{UNKNOWN}/renew-expiration",
                         {"expiresAt": soon(9)}), 404, "SANDBOX::NOT_FOUND")
    a = server.call("POST", path, {"expiresAt": int(time.time()) + 77})
    assert a.status == 200, a.body
    server.delete(sandbox)


@case
def pause_stops_it_and_resume_lets_it_go_on():
    sandbox = server.make()
    server.execd(sandbox, "POST", "/command", {
        "command": "i=0; while :; do i=$((i+1)); echo $i > /tmp/count; done", "background": True})
    until(lambda: server.run(sandbox, "cat /tmp/count || true") != "", "the counter")
    assert server.call("POST", f"/v1/sandboxes/{sandbox}/pause").status == 202
    assert server.state_of(sandbox) == "Paused"
    is_error(server.call("POST", f"/v1/sandboxes/{sandbox}/pause"), 409, "SANDBOX::NOT_RUNNING")
    is_error(server.execd(sandbox, "GET", "/ping"), 409, "GATEWAY::SANDBOX_NOT_RUNNING")
    assert server.call("POST", f"/v1/sandboxes/{sandbox}/resume").status == 202
    assert server.state_of(sandbox) == "Running"
    assert server.execd(sandbox, "GET", "/ping").status == 200
    is_error(server.call("POST", f"/v1/sandboxes/{sandbox}/resume"), 409, "SANDBOX::NOT_PAUSED")
    before = server.run(sandbox, "cat /tmp/count")
    until(lambda: server.run(sandbox, "cat /tmp/count") != before, "it to count on")
    server.delete(sandbox)


@case
def delete_works_from_every_state_and_hides():
    running, paused = server.make(), server.make()
    server.call("POST", f"/v1/sandboxes/{paused}/pause")
    for sandbox in (running, paused):
        a = server.delete(sandbox)
        assert a.status == 204 and a.body == b"", (a.status, a.body)
        is_error(server.info(sandbox), 404, "SANDBOX::NOT_FOUND")
        is_error(server.delete(sandbox), 404, "SANDBOX::NOT_FOUND")
        for what in ("pause", "resume"):
            is_error(server.call("POST", f"/v1/sandboxes/{sandbox}/{what}"), 404,
                     "SANDBOX::NOT_FOUND")
        kept = server.info(sandbox, "?includeTerminated=true").json["status"]
        assert kept["state"] == "Terminated" and kept["reason"] == "user_delete", kept
        assert not os.path.exists(os.path.join(server.state, "sandboxes", sandbox))


@case
def what_ends_by_itself_stays_visible_with_the_reason():
    expiring = server.make(timeout=600)
    server.call("POST", f"/v1/sandboxes/{expiring}/renew-expiration", {"expiresAt": soon(0.3)})
    until(lambda: server.state_of(expiring) == "Terminated", "its time to be up")
    status = server.info(expiring).json["status"]
    assert status["reason"] == "ttl_expiry", status
    is_error(server.call("POST", f"/v1/sandboxes/{expiring}/pause"), 404, "SANDBOX::NOT_FOUND")
    assert server.delete(expiring).status == 204
    is_error(server.info(expiring), 404, "SANDBOX::NOT_FOUND")


@case
def the_main_process_decides_how_it_ends():
    for code, state, reason in ((0, "Terminated", "exited"), (3, "Failed", "exited_error")):
        sandbox = server.make(entrypoint=[
            "/bin/sh", "-c", f"until [ -e /tmp/go ]; do sleep 0.01; done; exit {code}"])
        prefix, headers = server.endpoint(sandbox)
        try:
            server.call("POST", prefix + "/command", {"command": "touch /tmp/go"}, fields=headers)
        except (EOFError, ConnectionResetError):
            pass  # the end came faster than the answer
        until(lambda: server.state_of(sandbox) == state, f"it to be {state}")
        status = server.info(sandbox).json["status"]
        assert status["reason"] == reason and f"code {code}" in status["message"], status
        is_error(server.call("GET", prefix + "/ping", fields=headers), 404, "SANDBOX::NOT_FOUND")


@case
def one_that_ends_at_once_is_told_truly():
    a = server.create(entrypoint=["/bin/sh", "-c", "exit 0"])
    if a.status == 202:
        until(lambda: server.state_of(a.json["id"]) == "Terminated", "it to have ended")
    else:  # so fast that the runner saw its end before its beginning
        is_error(a, 500, "SANDBOX::START_FAILED")
    a = server.create(entrypoint=["/no/such/program"])
    if a.status == 202:  # it was answered for before the attempt failed
        until(lambda: server.state_of(a.json["id"]) == "Failed", "it to have failed")
    else:
        is_error(a, 500, "SANDBOX::START_FAILED")


@case
def an_idle_sandbox_ends_and_a_used_one_does_not():
    idle = server.make(extensions={"idle.timeout.seconds": "1"})
    used = server.make(extensions={"idle.timeout.seconds": "3"})

    def idle_ended():
        server.run(used, "true")
        return server.state_of(idle) == "Terminated"
    until(idle_ended, "it to be found idle")
    assert server.info(idle).json["status"]["reason"] == "idle_timeout"
    assert server.state_of(used) == "Running"
    server.delete(used)


@case
def access_renews_those_that_asked_for_it():
    opted = server.make(timeout=60, extensions={"access.renew.extend.seconds": "3000"})
    plain = server.make(timeout=60)
    for sandbox, renewed in ((opted, True), (plain, False)):
        before = when(server.info(sandbox).json["expiresAt"])
        server.run(sandbox, "true")
        after = when(server.info(sandbox).json["expiresAt"])
        assert ((after - before).total_seconds() > 2000) == renewed, (before, after)
        server.delete(sandbox)


# --- what is not there ---

@case
def snapshots_and_pools_say_that_they_are_not_there():
    for method, path in (("POST", f"/v1/sandboxes/{UNKNOWN}/snapshots"), ("GET", "/v1/snapshots"),
                         ("GET", "/v1/snapshots/x"), ("DELETE", "/v1/snapshots/x")):
        is_error(server.call(method, path), 501, "SNAPSHOT::NOT_IMPLEMENTED")
    for method, path in (("POST", "/v1/pools"), ("GET", "/pools"), ("PUT", "/v1/pools/p"),
                         ("DELETE", "/v1/pools/p"), ("GET", "/v1/pools/p")):
        is_error(server.call(method, path), 501, "KUBERNETES::POOL_NOT_SUPPORTED")


@case
def clients_may_report_their_timings():
    a = server.call("POST", "/v1/metrics/events", {"eventType": "sandbox.create"})
    assert a.status == 204 and a.body == b""


# --- diagnostics and metrics ---

@case
def diagnostics_tell_what_happened():
    sandbox = server.make(entrypoint=["/bin/sh", "-c",
                                      "echo line one; echo line two; exec tail -f /dev/null"])
    base = f"/v1/sandboxes/{sandbox}/diagnostics/"
    until(lambda: b"line two" in server.call("GET", base + "logs").body, "the lines")
    a = server.call("GET", base + "logs?tail=1")
    assert a.get("Deprecation") == "true" and a.get("Content-Type").startswith("text/plain")
    assert b"line two" in a.body and b"line one" not in a.body, a.body
    j = server.call("GET", base + "logs?scope=container").json
    assert j["sandboxId"] == sandbox and j["kind"] == "logs" and j["delivery"] == "inline"
    assert "line one" in j["content"] and j["truncated"] is False and j["scope"] == "container"
    j = server.call("GET", base + "events?scope=lifecycle").json
    assert "Pending" in j["content"] and "Running" in j["content"], j
    assert b"Running" in server.call("GET", base + "events?limit=5").body
    inspect = server.call("GET", base + "inspect").body.decode()
    assert sandbox in inspect and "memory (bytes)" in inspect, inspect
    summary = server.call("GET", base + "summary").body.decode()
    assert "== events" in summary and "line two" in summary
    _, headers = server.endpoint(sandbox)
    assert headers[0][1] not in inspect + summary, "the token is nobody's business"
    is_error(server.call("GET", base + "logs?scope=nonsense"), 400, "SANDBOX::INVALID_PARAMETER")
    is_error(server.call("GET", base + "logs?tail=0"), 422, "INVALID_REQUEST")
    is_error(server.call("GET", f"/v1/sandboxes/{UNKNOWN}/diagnostics/logs"), 404,
             "SANDBOX::NOT_FOUND")
    server.delete(sandbox)
    a = server.call("GET", base + "events?includeTerminated=true")
    assert b"user_delete" in a.body, a.body


@case
def metrics_are_prometheus_text():
    text = server.call("GET", "/metrics").body.decode()
    names = set()
    for line in text.splitlines():
        if line.startswith("#"):
            assert re.match(r"# (HELP|TYPE) [a-z_]+ \S", line), line
            continue
        found = re.match(r'([a-z_]+)(\{[a-z]+="[^"]*"\})? ([0-9.]+)$', line)
        assert found, line
        names.add(found.group(1))
    assert {"opensandbox_sandboxes", "opensandbox_create_seconds_bucket",
            "opensandbox_http_requests_total"} <= names
    counts = [int(n) for n in re.findall(r'create_seconds_bucket\{le="[^"]+"\} (\d+)', text)]
    assert counts == sorted(counts) and counts[-1] > 0


@case
def capacity_is_a_limit_and_says_so():
    ids = []
    while True:
        a = server.create()
        if a.status != 202:
            break
        ids.append(a.json["id"])
        assert len(ids) <= 60
    is_error(a, 503, "SANDBOX::NO_CAPACITY")
    assert a.get("Retry-After"), a.reply.fields
    for i in ids:
        assert server.delete(i).status == 204


with server:
    failed = run_cases(sys.argv[1] if len(sys.argv) > 1 else None)
    if len(sys.argv) == 1:
        assert os.listdir(os.path.join(server.state, "sandboxes")) == [], "something is left"
shutil.rmtree(HOST_DIR)
sys.exit(1 if failed else 0)
