#!/usr/bin/env python3
"""What has failed elsewhere and must not here: named cases, each made to happen rather than hoped for. A runner that
is stopped (SIGSTOP) keeps an operation under way for as long as a case needs it.
timeout: 600"""

import contextlib
import fcntl
import glob
import hashlib
import json
import os
import shutil
import signal
import socket
import sqlite3
import sys
import tempfile
import threading

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from stage import Stage, enter, until  # noqa: E402
from harness import Reader, case, run_cases  # noqa: E402
from serverlib import Answer, is_error, soon  # noqa: E402
from census import fd_count  # noqa: E402

enter()
STAGE = Stage(disk_mib=192, log=None if os.environ.get("OSB_LOG") else -3)


def server():
    """Up and ready, also after it was killed."""
    if STAGE.server is None or STAGE.server.proc.poll() is not None:
        STAGE.start()
    STAGE.ready()
    return STAGE.server


def fresh():
    """With no sandbox, whatever a case before this one has left."""
    s = server()
    for item in s.list(pageSize=200)["items"]:
        s.delete(item["id"])
    return s


class Held:
    """The runner does nothing for a while."""

    def __enter__(self):
        self.pid = STAGE.runner()
        os.kill(self.pid, signal.SIGSTOP)
        return self

    def go_on(self):
        if self.pid is not None:
            os.kill(self.pid, signal.SIGCONT)
            self.pid = None

    def end(self):
        os.kill(self.pid, signal.SIGKILL)
        self.pid = None

    def __exit__(self, *_):
        self.go_on()


class Later(threading.Thread):
    """A call whose answer is looked at later."""

    def __init__(self, call, *args, **kwargs):
        super().__init__(daemon=True)
        self.call, self.args, self.kwargs, self.answer = call, args, kwargs, None
        self.start()

    def run(self):
        try:
            self.answer = self.call(*self.args, **self.kwargs)
        except (OSError, EOFError) as e:
            self.answer = e

    def get(self):
        self.join(60)
        assert not self.is_alive(), "no answer"
        return self.answer


def in_state(s, state, **metadata):
    """The sandbox in this state; waits for it."""
    found = []

    def look():
        query = {"state": state, "pageSize": 50}
        if metadata:
            query["metadata"] = "&".join(f"{k}={v}" for k, v in metadata.items())
        found[:] = [i["id"] for i in s.list(**query)["items"]]
        return found
    until(look, f"a sandbox to be {state}")
    return found[0]


def states_in(sandbox):
    """Letters of its processes, as ps(1) has them."""
    found = ""
    for pid in STAGE.instance.inside(sandbox):
        try:
            with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as f:
                found += f.read().rpartition(")")[2].split()[0]
        except OSError:
            pass  # it has ended
    return found


def recorded(sandbox):
    """State and whether it is hidden, as the next server would know it. The store is the server's alone while it
    lives, so a copy is read."""
    with tempfile.TemporaryDirectory() as copy:
        for path in glob.glob(os.path.join(STAGE.state, "server", "server.db*")):
            shutil.copy(path, copy)
        with contextlib.closing(sqlite3.connect(os.path.join(copy, "server.db"))) as db:
            return db.execute("SELECT state, hidden FROM sandboxes WHERE id = ?", (sandbox,)).fetchone()


def recorded_state(sandbox):
    row = recorded(sandbox)
    return row[0] if row else None


def upload(s, sandbox, path, data):
    body = b""
    for name, content in (("metadata", json.dumps({"path": path}).encode()), ("file", data)):
        head = f'--end-of-part\r\nContent-Disposition: form-data; name="{name}"; filename="{name}"\r\n\r\n'
        body += head.encode() + content + b"\r\n"
    body += b"--end-of-part--\r\n"
    prefix, headers = s.endpoint(sandbox)
    head = f"POST {prefix}/files/upload HTTP/1.1\r\nHost: {s.host}\r\nContent-Length: {len(body)}\r\n"
    head += "Content-Type: multipart/form-data; boundary=end-of-part\r\n"
    head += "".join(f"{k}: {v}\r\n" for k, v in headers) + "\r\n"
    with s.connect() as c:
        try:
            c.sendall(head.encode() + body)
        except (BrokenPipeError, ConnectionResetError):
            pass  # it has heard enough; the answer is on its way
        return Answer(Reader(c).reply())


def nothing_left():
    STAGE.instance.agrees(set())


@case
def R01_ten_rounds_of_pause_and_resume_keep_every_byte():
    s = fresh()
    sandbox = s.make()
    data = os.urandom(1 << 20)
    assert upload(s, sandbox, "/root/file", data).status == 200
    # a process that has something in its memory, and tells of it when asked
    s.run(sandbox, "mkfifo /tmp/ask /tmp/told; cp /root/file /dev/shm/file")
    a = s.execd(sandbox, "POST", "/command", {"background": True, "command":
                "X=$(head -c 30000 /dev/urandom | base64 -w0); echo $X | sha256sum > /tmp/first; "
                "while read l < /tmp/ask; do echo $X | sha256sum > /tmp/again; echo > /tmp/told; done"})
    assert a.status == 200, a.body
    want = hashlib.sha256(data).hexdigest()
    for _ in range(10):
        assert s.call("POST", f"/v1/sandboxes/{sandbox}/pause").status == 202
        assert s.state_of(sandbox) == "Paused"
        is_error(s.execd(sandbox, "GET", "/ping"), 409, "GATEWAY::SANDBOX_NOT_RUNNING")
        assert s.call("POST", f"/v1/sandboxes/{sandbox}/resume").status == 202
        got = s.execd(sandbox, "GET", "/files/download?path=/root/file")
        assert got.status == 200 and hashlib.sha256(got.body).hexdigest() == want
        said = s.run(sandbox, "echo > /tmp/ask; read x < /tmp/told; cmp /tmp/first /tmp/again && echo same; "
                              "sha256sum < /dev/shm/file")
        assert said.split() == ["same", want, "-"], said
    assert s.delete(sandbox).status == 204
    nothing_left()


FIFREEZE, FITHAW = 0xC0045877, 0xC0045878


@case
def R01_a_pause_that_nobody_lived_to_complete_is_taken_back():
    claim = {"claimName": "r01", "storage": "16Mi", "deleteOnSandboxTermination": True}
    for victims in (["runner"], ["server"]):
        s = fresh()
        sandbox = s.make(volumes=[{"name": "v", "mountPath": "/v", "pvc": claim}])
        volume = os.open(f"/proc/{STAGE.instance.first_process(sandbox)}/root/v", os.O_RDONLY)
        fcntl.ioctl(volume, FIFREEZE, 0)  # who writes there waits where nothing can freeze him
        try:
            a = s.execd(sandbox, "POST", "/command", {"command": "echo x > /v/f", "background": True})
            assert a.status == 200, a.body
            until(lambda sandbox=sandbox: "D" in states_in(sandbox), "somebody to wait for the volume")
            pausing = Later(s.call, "POST", f"/v1/sandboxes/{sandbox}/pause")
            in_state(s, "Pausing")
            STAGE.kill(*victims)
            answer = pausing.get()
            s = server()
            assert isinstance(answer, Exception) or answer.status == 503, answer.body
            assert s.state_of(sandbox) == "Running"
        finally:
            fcntl.ioctl(volume, FITHAW, 0)
            os.close(volume)
        assert s.run(sandbox, "echo on") == "on"
        assert s.state_of(sandbox) == "Running"
        assert s.delete(sandbox).status == 204
        nothing_left()


@case
def R03_an_exit_status_is_never_invented():
    s = fresh()
    sandbox = s.make()
    prefix, headers = s.endpoint(sandbox)
    going = Later(s.call, "POST", prefix + "/command", {"command": "echo begun; sleep 1000"}, headers)
    until(lambda: "sleep" in s.run(sandbox, "cat /proc/*/comm"), "the command to run")
    STAGE.kill(sandbox)
    answer = going.get()
    if not isinstance(answer, Exception):
        assert b"execution_complete" not in answer.body and b'"evalue":"0"' not in answer.body, answer.body
    until(lambda: s.state_of(sandbox) == "Failed", "its end to be noticed")
    assert s.delete(sandbox).status == 204
    nothing_left()


@case
def R06_delete_works_from_every_state():
    s = fresh()
    # Running, Paused, Failed
    one, two, three = s.make(), s.make(), s.make()
    assert s.call("POST", f"/v1/sandboxes/{two}/pause").status == 202
    STAGE.kill(three)
    until(lambda: s.state_of(three) == "Failed", "its end to be noticed")
    for sandbox in (one, two, three):
        assert s.delete(sandbox).status == 204, sandbox
        is_error(s.info(sandbox), 404, "SANDBOX::NOT_FOUND")
    # Pending
    with Held() as runner:
        making = Later(s.create, metadata={"case": "R06"})
        sandbox = in_state(s, "Pending", case="R06")
        gone = Later(s.delete, sandbox)
        until(lambda: s.call("GET", "/health").status == 200, "the server to answer meanwhile")
        runner.go_on()
        assert gone.get().status == 204
        is_error(making.get(), 404, "SANDBOX::NOT_FOUND")
    # Pausing, Resuming
    for way, state in (("pause", "Pausing"), ("resume", "Resuming")):
        sandbox = s.make()
        if way == "resume":
            assert s.call("POST", f"/v1/sandboxes/{sandbox}/pause").status == 202
        with Held() as runner:
            changing = Later(s.call, "POST", f"/v1/sandboxes/{sandbox}/{way}")
            assert in_state(s, state) == sandbox
            gone = Later(s.delete, sandbox)
            runner.go_on()
            assert gone.get().status == 204
            assert changing.get().status in (202, 404)
        assert s.state_of(sandbox) in (404, "Terminated")
    # Stopping
    sandbox = s.make()
    with Held() as runner:
        gone = [Later(s.delete, sandbox)]
        assert in_state(s, "Stopping") == sandbox
        gone += [Later(s.delete, sandbox) for _ in range(3)]
        runner.go_on()
        assert gone[0].get().status == 204
        assert all(g.get().status in (204, 404) for g in gone[1:])  # it may be gone when they come
    nothing_left()


@case
def R06_what_is_deleted_while_it_expires_is_gone():
    s = fresh()
    sandbox = s.make()
    with Held() as runner:
        a = s.call("POST", f"/v1/sandboxes/{sandbox}/renew-expiration", {"expiresAt": soon(2)})
        assert a.status == 200, a.body
        assert in_state(s, "Stopping") == sandbox
        gone = Later(s.delete, sandbox)
        runner.go_on()
        assert gone.get().status == 204
    is_error(s.info(sandbox), 404, "SANDBOX::NOT_FOUND")
    STAGE.kill("server")
    is_error(server().info(sandbox), 404, "SANDBOX::NOT_FOUND")
    nothing_left()


@case
def R07_killed_in_the_middle_of_a_create():
    for victims in (["server"], ["runner"], ["server", "runner"]):
        s = fresh()
        with Held() as runner:
            making = Later(s.create, resourceLimits={"memory": "64Mi", "disk": "16Mi"}, metadata={"case": "R07"})
            in_state(s, "Pending", case="R07")
            if "runner" in victims:
                runner.end()
            if "server" in victims:
                STAGE.kill("server")
        answer = making.get()
        s = server()
        if not isinstance(answer, Exception):  # the server was there to tell
            if answer.status == 202:  # it had not asked the one that died yet, and the next one made it
                assert s.delete(answer.json["id"]).status == 204
            else:
                is_error(answer, 503, "SANDBOX::RUNTIME_UNAVAILABLE")
        assert s.list(pageSize=50, state="Running")["items"] == []
        nothing_left()


@case
def R07_a_volume_goes_with_the_create_that_nobody_lived_to_complete():
    s = fresh()
    claims = {claim: {"volumes": [{"name": "v", "mountPath": "/v", "pvc": {"claimName": claim}}]}
              for claim in ("wanted", "unwanted")}
    lives = s.make(**claims["wanted"])
    with Held():
        making = Later(s.create, **claims["unwanted"])
        in_state(s, "Pending")
        STAGE.kill("server")
        making.get()
    s = server()
    volumes = os.path.join(STAGE.state, "volumes")
    until(lambda: set(os.listdir(volumes)) == {"wanted"}, "what was made for nobody to go")
    assert s.run(lives, "touch /v/x; ls /v") == "x"
    assert s.delete(lives).status == 204
    STAGE.stop()
    server()
    assert os.listdir(os.path.join(volumes, "wanted")) == ["x"], "it was to be kept"
    shutil.rmtree(os.path.join(volumes, "wanted"))
    nothing_left()


@case
def R07_killed_in_the_middle_of_a_delete():
    for victims in (["server"], ["runner"], ["server", "runner"]):
        s = fresh()
        sandbox = s.make(resourceLimits={"memory": "64Mi", "disk": "16Mi"})
        with Held() as runner:
            gone = Later(s.delete, sandbox)
            until(lambda sandbox=sandbox: recorded_state(sandbox) == "Stopping", "the removal to be in the store")
            if "runner" in victims:
                runner.end()
            if "server" in victims:
                STAGE.kill("server")
        answer = gone.get()
        s = server()
        assert isinstance(answer, Exception) or answer.status == 204, answer.body
        until(lambda s=s, sandbox=sandbox: s.info(sandbox).status == 404, "it to be gone")
        nothing_left()


@case
def R11_a_restart_does_not_reset_the_time_to_live():
    s = fresh()
    sandbox, short = s.make(timeout=60), s.make(timeout=3600)
    renewed = s.call("POST", f"/v1/sandboxes/{short}/renew-expiration", {"expiresAt": soon(1)}).json["expiresAt"]
    before = s.info(sandbox).json["expiresAt"]
    for _ in range(3):
        STAGE.kill("server", "runner")
        s = server()
        assert s.info(sandbox).json["expiresAt"] == before
    until(lambda: s.state_of(short) == "Terminated", "it to expire when it was told to")
    info = s.info(short, "?includeTerminated=true").json
    assert info["status"]["reason"] == "ttl_expiry" and info["expiresAt"] == renewed, info
    for each in (sandbox, short):
        assert s.delete(each).status == 204
    nothing_left()


@case
def R11_a_renewal_wins_or_loses_against_the_expiry_but_never_both():
    s = fresh()
    outcomes = set()
    for n in range(24):
        sandbox = s.make()
        s.call("POST", f"/v1/sandboxes/{sandbox}/renew-expiration", {"expiresAt": soon(0.06)})
        threading.Event().wait(0.03 + n * 0.002)  # into the middle of it, before and after
        a = s.call("POST", f"/v1/sandboxes/{sandbox}/renew-expiration", {"expiresAt": soon(600)})
        outcomes.add(a.status)
        if a.status == 200:
            assert s.run(sandbox, "echo on") == "on"
            assert s.info(sandbox).json["expiresAt"] == a.json["expiresAt"]
        else:
            assert a.status in (404, 409), a.body
            until(lambda sandbox=sandbox: s.state_of(sandbox) == "Terminated", "it to expire")
        assert s.delete(sandbox).status in (204, 404)
    nothing_left()


@case
def R12_running_out_of_memory_is_told_as_that():
    s = fresh()
    sandbox = s.make(resourceLimits={"memory": "64Mi"})
    a = s.execd(sandbox, "POST", "/command", {"command": "tail /dev/zero"})
    assert b"out of memory" in a.body and b"execution_complete" not in a.body, a.body
    assert s.run(sandbox, "echo on") == "on"
    until(lambda: b"oom" in s.call("GET", f"/v1/sandboxes/{sandbox}/diagnostics/events?limit=50").body,
          "an event to tell of it")
    # the main process
    main = s.create(resourceLimits={"memory": "64Mi"}, entrypoint=["tail", "/dev/zero"])
    if main.status == 202:
        sandbox_2 = main.json["id"]
        until(lambda: s.state_of(sandbox_2) == "Failed", "it to fail")
        status = s.info(sandbox_2).json["status"]
        assert status["reason"] == "oom_killed", status
        assert s.delete(sandbox_2).status == 204
    else:  # it may be quicker than the answer
        is_error(main, 500, "SANDBOX::START_FAILED")
        assert "memory" in main.json["message"], main.body
    assert s.delete(sandbox).status == 204
    nothing_left()


@case
def R13_an_unknown_limit_is_refused():
    s = fresh()
    for limits in ({"gpu": "1"}, {"memory": "64Mi", "nvidia.com/gpu": "1"}, {"memory": "lots"}, {"cpu": "-1"},
                   {"Memory": "64Mi"}, {"memory": "0"}, {"memory": "1Mi"}, {"memory": "15Ei"}, {"cpu": "1m"},
                   {"cpu": "4000000"}, {"pids": "1"}, {"nofile": "4294967295"}, {"disk": "15Ei"}, {"io.write": "15Ei"},
                   {"disk": "16Mi", "storage": "32Mi"}):
        is_error(s.create(resourceLimits=limits), 400, "SANDBOX::INVALID_RESOURCE_LIMIT")
    nothing_left()


def leave_free(kib):
    """A disk with about so much left."""
    path = STAGE.fill_disk()
    size = os.stat(path).st_size
    os.truncate(path, max(0, size - (kib << 10)))
    return path


@case
def R15_a_full_disk_gives_clean_errors_at_every_step():
    s = fresh()
    old = s.make()
    s.run(old, "echo kept > /root/kept")
    results = []
    for kib in (0, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 4096):
        ballast = leave_free(kib)
        try:
            for limits in ({"memory": "64Mi"}, {"memory": "64Mi", "disk": "16Mi"}):
                a = s.create(resourceLimits=limits)
                results.append(a.status)
                if a.status == 202:
                    assert s.delete(a.json["id"]).status == 204, "a delete needs no room"
                else:
                    assert a.status in (500, 503, 507) and a.json["code"] and a.json["message"], a.body
            a = upload(s, old, "/root/big", os.urandom(8 << 20))
            assert a.status >= 400 and a.json["code"], (a.status, a.body)
            assert s.run(old, "cat /root/kept; ls /root") == "kept\nkept", "half a file is left"
        finally:
            os.unlink(ballast)
    assert 500 in results or 503 in results, results
    new = s.make(resourceLimits={"memory": "64Mi", "disk": "16Mi"})
    assert s.run(new, "echo on") == "on"
    for sandbox in (old, new):
        assert s.delete(sandbox).status == 204
    nothing_left()


@case
def R15_what_a_full_disk_refuses_has_not_happened():
    s = fresh()
    sandbox = s.make(metadata={"a": "1"})
    before = s.info(sandbox).json
    ballast, refused = STAGE.fill_disk(), set()
    much = {f"key-{i}": "v" * 60 for i in range(600)}
    try:
        for n in range(400):  # a log with room in it, or that begins anew, takes some
            for method, path, body in (("PATCH", "metadata", {**much, "a": str(n + 2)}),
                                       ("POST", "renew-expiration", {"expiresAt": soon(5000 + n)})):
                a = s.call(method, f"/v1/sandboxes/{sandbox}/{path}", body)
                now = s.info(sandbox).json
                if a.status == 200:
                    before = now
                else:
                    is_error(a, 500, "SANDBOX::STORE_FAILED")
                    assert now == before, (method, before, now)
                    refused.add(method)
            much = {key: value[1:] + value[0] if n else "w" * 59 + "v" for key, value in much.items()}
            if len(refused) == 2:
                break
    finally:
        os.unlink(ballast)
    assert len(refused) == 2, refused
    STAGE.stop()
    s = server()
    assert s.info(sandbox).json == before, (before, s.info(sandbox).json)
    assert s.delete(sandbox).status == 204
    nothing_left()


@case
def R15_a_server_killed_on_a_full_disk_comes_back():
    s = fresh()
    sandbox, other = s.make(), s.make()
    ballast = STAGE.fill_disk()
    try:
        assert s.delete(other).status == 204
        STAGE.kill("server")
        try:
            STAGE.start()
        except RuntimeError:  # it may say that it cannot
            pass
    finally:
        os.unlink(ballast)
    s = server()
    assert s.run(sandbox, "echo on") == "on"
    is_error(s.info(other), 404, "SANDBOX::NOT_FOUND")
    for each in (sandbox, other):
        assert s.delete(each).status in (204, 404)
    nothing_left()


def until_the_store_is_full(s, sandbox):
    """A log with room in it, or that begins anew, takes some. Small writes are refused last."""
    much = {f"key-{i}": "v" * 60 for i in range(600)}
    for n in range(400):
        much = {key: value[1:] + "vw"[n % 2] for key, value in much.items()}
        big = s.call("PATCH", f"/v1/sandboxes/{sandbox}/metadata", much)
        small = s.call("POST", f"/v1/sandboxes/{sandbox}/renew-expiration", {"expiresAt": soon(5000 + n)})
        if big.status != 200 and small.status != 200:
            return
    raise AssertionError("the store takes everything")


def delete_unrecorded(s, lives, candidates, record):
    """Delete some until the store refuses to take notice: the one that is in it as before. A small write may fit
    where others did not, hence several."""
    for sandbox in candidates:
        until_the_store_is_full(s, lives)
        assert s.delete(sandbox).status == 204
        is_error(s.info(sandbox), 404, "SANDBOX::NOT_FOUND")
        if recorded(sandbox) == record:
            return sandbox
    raise AssertionError("the store had room")


@case
def R15_a_delete_that_was_answered_on_a_full_disk_is_one_after_a_restart():
    s = fresh()
    lives, runs = s.make(), [s.make() for _ in range(4)]
    exits = [s.create(entrypoint=["true"]).json["id"] for _ in range(8)]
    for each in exits:
        until(lambda: s.state_of(each) == "Terminated", "it to end by itself")  # pylint: disable=cell-var-from-loop
    ballast = STAGE.fill_disk()
    try:
        exited = delete_unrecorded(s, lives, exits, ("Terminated", 0))
        ran = delete_unrecorded(s, lives, runs, ("Running", 0))
        STAGE.kill("server")
    finally:
        os.unlink(ballast)
    for _ in range(2):  # and what makes up for the store is not needed twice
        s = server()
        for each, reason in ((ran, "user_delete"), (exited, "exited")):
            is_error(s.info(each), 404, "SANDBOX::NOT_FOUND")
            status = s.info(each, "?includeTerminated=true").json["status"]
            assert (status["state"], status["reason"]) == ("Terminated", reason), status
        assert s.run(lives, "echo on") == "on"
        STAGE.stop()
        assert recorded(ran) == recorded(exited) == ("Terminated", 1)
        assert not open(f"{STAGE.state}/server/server.db.ends", "rb").read().strip(b"\0"), "a note is left"
    fresh()
    nothing_left()


@case
def R17_a_client_that_leaves_leaks_nothing():
    s = fresh()
    sandbox = s.make()
    prefix, headers = s.endpoint(sandbox)
    s.run(sandbox, "true")
    before = fd_count(s.pid)
    inside = STAGE.instance.first_process(sandbox)
    before_inside = fd_count(inside)
    for n in range(40):
        command = f"echo begun; until test -e /tmp/go; do sleep 0.1; done; echo > /tmp/done.{n}"
        body = json.dumps({"command": command}).encode()
        with s.connect() as c:
            c.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
            head = f"POST {prefix}/command HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n"
            head += "".join(f"{k}: {v}\r\n" for k, v in headers) + "\r\n"
            c.sendall(head.encode() + body)
            got = b""
            while b"begun" not in got:
                got += c.recv(4096)
    until(lambda: fd_count(s.pid) <= before + 1, "the server to let go")
    # a command goes on without its client, as documented
    s.run(sandbox, "touch /tmp/go")
    until(lambda: s.run(sandbox, "ls /tmp/done.* 2> /dev/null | wc -l") == "40", "the commands to come to their end")
    until(lambda: fd_count(inside) <= before_inside + 1, "execd to let go")
    assert s.delete(sandbox).status == 204
    nothing_left()


failed = 1
with STAGE:
    failed = run_cases(sys.argv[1] if len(sys.argv) > 1 else None)
print("ok nothing is left")
sys.exit(1 if failed else 0)
