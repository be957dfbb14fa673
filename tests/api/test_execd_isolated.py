#!/usr/bin/env python3
"""/v1/isolated: sessions in namespaces of their own, and what they keep apart."""
# timeout: 300

import json
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time

from harness import DEADLINE, Program, Reader, case, request, run_cases, until

TOP = tempfile.mkdtemp(prefix="osb-iso-", dir="/var/tmp")
os.chmod(TOP, 0o755)
ENV = dict(os.environ, MY_API_KEY="secret-1", my_password="secret-2", AWS_REGION="secret-3",
           PLAIN="seen", EXECD_ACCESS_TOKEN="")
execd = Program("execd", "--port", "0", env=ENV, cwd="/")
BASE = "/v1/isolated"


def call(method, path, body=None):
    data = json.dumps(body).encode() if body is not None else b""
    return request(execd, method, BASE + path, data)


def error(reply, status, code, words=""):
    assert reply.status == status, (reply.status, reply.body)
    body = json.loads(reply.body)
    assert body["code"] == code and words in body["message"], body


CAPABILITIES = json.loads(call("GET", "/capabilities").body)


def fresh(**files):
    path = tempfile.mkdtemp(dir=TOP)
    os.chmod(path, 0o755)
    for name, text in files.items():
        with open(f"{path}/{name}", "w", encoding="utf-8") as f:
            f.write(text + "\n")
    return path


def descendants(words):
    """Processes below execd whose command line has these words, by number."""
    parents, lines = {}, {}
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{name}/stat", encoding="latin-1") as f:
                parents[int(name)] = int(f.read().rsplit(")", 1)[1].split()[1])
            with open(f"/proc/{name}/cmdline", "rb") as f:
                lines[int(name)] = f.read().replace(b"\0", b" ").decode("latin-1")
        except (OSError, ProcessLookupError):
            continue

    def below(pid):
        while pid > 1 and pid != execd.pid:
            pid = parents.get(pid, 0)
        return pid == execd.pid

    return sorted(pid for pid, line in lines.items() if words in line and below(pid))


class Session:
    def __init__(self, workspace, mode=None, **more):
        spec = {"path": workspace}
        if mode:
            spec["mode"] = mode
        reply = call("POST", "/session", {"workspace": spec, **more})
        assert reply.status == 201, (reply.status, reply.body)
        self.info = json.loads(reply.body)
        self.id = self.info["session_id"]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        call("DELETE", f"/session/{self.id}")

    def events(self, code, **more):
        reply = call("POST", f"/session/{self.id}/run", {"code": code, **more})
        assert reply.status == 200, (reply.status, reply.body)
        return [json.loads(line) for line in reply.body.decode().split("\n") if line]

    def run(self, code, **more):
        """Output lines, errors included, and the exit code."""
        events = self.events(code, **more)
        assert events[0]["type"] == "init"
        lines = [e["text"] for e in events if e["type"] in ("stdout", "stderr")]
        last = events[-1]
        if last["type"] == "execution_complete":
            return lines, 0
        return lines, last["error"]["evalue"]


@case
def capabilities_have_all_fields():
    for key in ("available", "setpriv_available", "userns_available", "commit_supported",
                "diff_supported"):
        assert isinstance(CAPABILITIES[key], bool), key
    assert CAPABILITIES["available"] or CAPABILITIES["message"]
    assert json.loads(call("GET", "/capabilities").body) == CAPABILITIES


@case
def life_of_a_session():
    ws = fresh()
    with Session(ws, "rw", profile="balanced", idle_timeout_seconds=77) as s:
        assert s.info["created_at"].endswith("Z") and s.info["workspace"] == {"path": ws, "mode": "rw"}
        got = json.loads(call("GET", f"/session/{s.id}").body)
        assert got["status"] == "active" and got["profile"] == "balanced"
        assert got["idle_timeout_seconds"] == 77 and 0 < got["idle_remaining_seconds"] <= 77
        listed = json.loads(call("GET", "/sessions").body)["sessions"]
        assert [i["session_id"] for i in listed] == [s.id]
        reply = call("DELETE", f"/session/{s.id}")
        assert (reply.status, reply.body) == (200, b"")
    assert json.loads(call("GET", "/sessions").body) == {"sessions": []}
    for method, path in (("GET", ""), ("DELETE", ""), ("POST", "/run"), ("GET", "/diff"),
                         ("POST", "/commit"), ("GET", "/files/info")):
        error(call(method, f"/session/{s.id}{path}", {}), 404, "CONTEXT_NOT_FOUND", "not found")


@case
def runs_keep_directory_and_variables():
    with Session(fresh()) as s:
        assert s.run("pwd; mkdir sub; cd sub; export A=one; echo it") == ([s.info["workspace"]["path"], "it"], 0)
        assert s.run("pwd; echo $A; exit 9") == ([s.info["workspace"]["path"] + "/sub", "one"], "9")
        assert s.run("echo \"$Q\"", envs={"Q": "it's $HOME \"x\"\n2"}) == (["it's $HOME \"x\"", "2"], 0)
        for bad in ({"code": ""}, {}, {"code": 7}, {"code": "x", "envs": {"a-b": "1"}},
                    {"code": "x", "timeout_seconds": -1}, {"code": "x", "background": True}):
            error(call("POST", f"/session/{s.id}/run", bad), 400, "INVALID_REQUEST_BODY")


@case
def timeouts_end_the_run():
    with Session(fresh()) as s:
        events = s.events("echo begun; sleep 1000", timeout_seconds=1)
        assert events[-1]["type"] == "error", events
        assert s.run("echo still here") == (["still here"], 0)


@case
def overlay_keeps_the_workspace_as_it_was():
    ws = fresh(a="original")
    with Session(ws, "overlay") as s:
        assert s.run("echo changed > a; echo new > b; rm -f c; cat a b") == (["changed", "new"], 0)
    with open(ws + "/a", encoding="utf-8") as f:
        assert f.read() == "original\n"
    assert os.listdir(ws) == ["a"]
    with Session(ws, "overlay") as s:
        assert s.run("cat a; ls") == (["original", "a"], 0)


@case
def rw_writes_through_and_ro_does_not():
    ws = fresh(a="original")
    with Session(ws, "rw") as s:
        assert s.run("echo changed > a")[1] == 0
    with open(ws + "/a", encoding="utf-8") as f:
        assert f.read() == "changed\n"
    with Session(ws, "ro") as s:
        lines, code = s.run("echo again > a")
        assert code != 0 and "Read-only file system" in lines[0]


@case
def everything_else_is_read_only():
    with Session(fresh(), "rw") as s:
        for path in ("/etc/canary", "/usr/canary", "/var/tmp/canary", TOP + "/canary", "/dev/canary",
                     "/root/canary"):
            lines, code = s.run(f"touch {path}")
            assert code != 0, path
            assert not os.path.exists(path), path
        # and cannot be made writable again
        lines, code = s.run("mount -o remount,rw / && touch /etc/canary")
        assert code != 0 and not os.path.exists("/etc/canary"), lines
        lines, code = s.run("mount -t tmpfs none /mnt")
        assert code != 0, lines
        lines, code = s.run("unshare -m true")
        assert code != 0, lines


@case
def the_knobs_of_the_machine_are_out_of_reach():
    with open("/proc/sys/kernel/core_pattern", encoding="ascii") as f:
        before = f.read()
    with Session(fresh(), "rw", share_net=True) as s:
        for path in ("/proc/sys/kernel/core_pattern", "/proc/sys/kernel/hostname",
                     "/proc/sysrq-trigger", "/sys/kernel/mm/ksm/run"):
            assert s.run(f"echo canary > {path}")[1] != 0, path
    with open("/proc/sys/kernel/core_pattern", encoding="ascii") as f:
        assert f.read() == before


@case
def sockets_of_services_are_out_of_reach():
    path = f"/run/osb-iso-{os.getpid()}.sock"
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(path)
    try:
        with Session(fresh()) as s:
            assert s.run(f"test -e {path}")[1] != 0
    finally:
        listener.close()
        os.unlink(path)


@case
def the_root_is_the_root():
    with Session(fresh()) as s:
        assert s.run("cd /tmp/..; pwd -P; test -e etc && echo etc") == (["/", "etc"], 0)
        got = s.run(f"cd {TOP}; cd ../../..; pwd -P; ls upper 2>/dev/null; test -e etc && echo e")
        assert got == (["/", "e"], 0), got


@case
def processes_are_its_own():
    with Session(fresh()) as s:
        lines, _ = s.run("ls /proc | grep -c '^[0-9]'; echo $$; cat /proc/1/comm")
        assert int(lines[0]) < 10 and int(lines[1]) < 100 and lines[2].startswith("exec"), lines
        lines, code = s.run(f"kill -9 {execd.pid} {os.getpid()}")
        assert code != 0
    assert request(execd, "GET", "/ping").status == 200


@case
def delete_ends_all_of_its_processes():
    ws = fresh()
    s = Session(ws, "rw")
    s.run("sleep 12345 & setsid sleep 12346 & echo $! > pid")
    until(lambda: len(descendants("sleep 1234")) == 2, "both run")
    pids = descendants("sleep 1234")
    call("DELETE", f"/session/{s.id}")
    for pid in pids:
        until(lambda: not os.path.exists(f"/proc/{pid}"), f"{pid} is gone")


@case
def tmp_is_private_or_shared_by_profile():
    name = f"/tmp/osb-iso-canary-{os.getpid()}"
    try:
        with open(name, "w", encoding="ascii") as f:
            f.write("outside")
        with Session(fresh(), profile="strict") as s:
            assert s.run(f"cat {name}")[1] != 0
            assert s.run("echo x > /tmp/mine; cat /tmp/mine") == (["x"], 0)
            assert not os.path.exists("/tmp/mine")
        with Session(fresh(), profile="balanced") as s:
            assert s.info["workspace"]["mode"] == "rw"
            assert s.run(f"cat {name}; echo inside > {name}") == (["outside"], 0)
        with open(name, encoding="ascii") as f:
            assert f.read() == "inside\n"
    finally:
        os.unlink(name)


@case
def a_workspace_below_tmp():
    ws = tempfile.mkdtemp(prefix="osb-iso-ws-", dir="/tmp")
    try:
        for mode in ("rw", "overlay", "ro"):
            for profile in ("strict", "balanced"):
                with Session(ws, mode, profile=profile) as s:
                    lines, code = s.run("pwd; touch x && echo touched")
                    assert lines[0] == ws
                    assert (code == 0) == (mode != "ro"), (mode, profile, lines)
                    want = mode == "rw"
                    assert os.path.exists(ws + "/x") == want, (mode, profile)
                    if want:
                        os.unlink(ws + "/x")
    finally:
        shutil.rmtree(ws)


@case
def the_network_is_cut_unless_shared():
    listener = socket.create_server(("127.0.0.1", 0))
    port = listener.getsockname()[1]
    code = f"exec 3<>/dev/tcp/127.0.0.1/{port} && echo reached"
    with Session(fresh()) as s:
        assert s.run(code)[1] != 0
    with Session(fresh(), share_net=True) as s:
        assert s.run(code) == (["reached"], 0)
    listener.close()


@case
def secrets_stay_outside():
    show = "env | grep -c secret; echo $PLAIN"
    with Session(fresh(), profile="strict") as s:
        assert s.run(show)[0] == ["0", "seen"]
    with Session(fresh(), profile="balanced") as s:
        assert s.run(show)[0] == ["3", "seen"]
    with Session(fresh(), profile="balanced",
                 env_passthrough={"mode": "deny", "keys": ["PLAIN", "AWS_REGION"]}) as s:
        assert s.run(show)[0] == ["2", "\n"]
    with Session(fresh(), profile="strict",
                 env_passthrough={"mode": "allow", "keys": ["MY_API_KEY"]}) as s:
        assert s.run(show + "; echo $MY_API_KEY")[0] == ["1", "\n", "secret-1"]


@case
def binds_and_extra_writable():
    ws, extra, other = fresh(), fresh(), fresh(f="bound")
    with Session(ws, "rw", extra_writable=[extra],
                 binds=[{"source": other, "dest": "/mnt"}, {"source": other, "readonly": True}]) as s:
        assert s.run(f"echo 1 > {extra}/x; cat /mnt/f; echo 2 > /mnt/y; cat {other}/y") \
            == (["bound", "2"], 0)
        assert s.run(f"echo 3 > {other}/z")[1] != 0
    assert os.listdir(extra) == ["x"] and sorted(os.listdir(other)) == ["f", "y"]


@case
def another_user():
    ws = fresh()
    os.chown(ws, 4321, 4322)
    with Session(ws, "rw", uid=4321, gid=4322) as s:
        assert s.run("id -u; id -g; touch mine") == (["4321", "4322"], 0)
        assert s.run("cat /etc/shadow")[1] != 0
    st = os.stat(ws + "/mine")
    assert (st.st_uid, st.st_gid) == (4321, 4322)


@case
def a_user_namespace():
    if not CAPABILITIES["userns_available"]:
        print("skip a_user_namespace not available here")
        return
    ws = fresh()
    with Session(ws, "rw", uid_mode="userns", uid=1000, gid=1000) as s:
        assert s.run("id -u; id -g; touch mine") == (["1000", "1000"], 0)
        assert s.run("touch /etc/canary")[1] != 0
        assert s.run("mount -t tmpfs none /mnt")[1] != 0
    st = os.stat(ws + "/mine")
    assert (st.st_uid, st.st_gid) == (os.geteuid(), os.getegid())
    with Session(fresh(a="1"), "overlay", uid_mode="userns") as s:
        assert s.run("echo 2 > a; cat a") == (["2"], 0)


@case
def no_way_up_from_root():
    with Session(fresh(), "rw") as s:
        lines, _ = s.run("grep -E 'CapEff|CapBnd|NoNewPrivs' /proc/self/status")
        caps = {line.split()[0]: line.split()[1] for line in lines}
        assert caps["NoNewPrivs:"] == "1"
        assert int(caps["CapEff:"], 16) & (1 << 21) == 0  # CAP_SYS_ADMIN
        assert int(caps["CapBnd:"], 16) & (1 << 21) == 0
        assert int(caps["CapEff:"], 16) & (1 << 19) == 0  # CAP_SYS_PTRACE
        assert s.run("mknod /tmp/sda b 8 0")[1] != 0


@case
def files_of_a_session():
    ws = fresh(a="original")
    with Session(ws, "overlay") as s:
        def files(method, path, body=b"", fields=()):
            return request(execd, method, f"{BASE}/session/{s.id}{path}", body, fields)

        form = (b'--B\r\nContent-Disposition: form-data; name="metadata"\r\n\r\n'
                + json.dumps({"path": ws + "/up"}).encode() +
                b'\r\n--B\r\nContent-Disposition: form-data; name="file"; filename="x"\r\n\r\n'
                + b"z" * 300000 + b"\r\n--B--\r\n")
        reply = files("POST", "/files/upload", form,
                      [("Content-Type", "multipart/form-data; boundary=B")])
        assert (reply.status, reply.get("content-length")) == (200, "0"), reply.body
        assert s.run("wc -c < up") == (["300000"], 0)
        assert files("GET", f"/files/download?path={ws}/up").body == b"z" * 300000
        reply = files("GET", f"/files/download?path={ws}/a", b"", [("Range", "bytes=0-3")])
        assert (reply.status, reply.body) == (206, b"orig")
        assert files("POST", "/files/replace", json.dumps(
            {ws + "/a": {"old": "original", "new": "other"}}).encode()).status == 200
        assert files("GET", f"/files/download?path={ws}/a").body == b"other\n"
        assert files("POST", "/files/mv", json.dumps(
            [{"src": ws + "/a", "dest": ws + "/b"}]).encode()).status == 200
        assert files("POST", "/directories", json.dumps({ws + "/d": {"mode": 700}}).encode()).status == 200
        got = json.loads(files("GET", f"/directories/list?path={ws}").body)
        assert [i["path"] for i in got] == [f"{ws}/b", f"{ws}/d", f"{ws}/up"]
        got = json.loads(files("GET", f"/files/search?path={ws}&pattern=u*").body)
        assert [i["path"] for i in got] == [f"{ws}/up"]
        assert files("POST", "/files/permissions", json.dumps({ws + "/b": {"mode": 600}}).encode()).status == 200
        assert json.loads(files("GET", "/files/info?path=b").body)["b"]["mode"] == 600
        assert files("DELETE", f"/files?path={ws}/b").status == 200
        assert files("DELETE", f"/directories?path={ws}/d").status == 200
        error(files("GET", f"/files/info?path={ws}/b"), 404, "FILE_NOT_FOUND")
        for path in ("/command", "/ping", "/pty", "/proxy/80/", "/filesystem", "/session"):
            assert files("GET", path).status == 404, path
        for path in ("/files/../ping", "/files/%2e%2e/ping"):
            assert files("GET", path).status == 404, path
    assert os.listdir(ws) == ["a"]


@case
def the_inner_execd_is_for_us_alone():
    with Session(fresh(), share_net=True) as s:
        with open("/proc/net/unix", encoding="ascii") as f:
            names = re.findall(r"@(\S+)$", f.read(), re.MULTILINE)
        tried = 0
        for name in names:
            sock = socket.socket(socket.AF_UNIX)
            sock.settimeout(DEADLINE)
            try:
                sock.connect("\0" + name)
                sock.sendall(b"GET /ping HTTP/1.1\r\nHost: x\r\n\r\n")
                reply = Reader(sock).reply()
            except (OSError, EOFError, AssertionError, ValueError):
                continue
            finally:
                sock.close()
            tried += 1
            assert reply.status == 401, (name, reply.status)
        assert tried >= 1
        assert s.run("env | grep -ic access_token")[0] == ["0"]


@case
def bad_requests():
    ws = fresh(a="x")
    for body in ({}, {"workspace": {}}, {"workspace": {"path": ""}}, {"workspace": {"path": 7}},
                 {"workspace": {"path": ws, "mode": "wild"}}, {"workspace": {"path": ws + "/no"}},
                 {"workspace": {"path": ws + "/a"}}, {"workspace": {"path": "/"}},
                 {"workspace": {"path": ws}, "profile": "loose"},
                 {"workspace": {"path": ws}, "uid_mode": "magic"},
                 {"workspace": {"path": ws}, "gid": 5}, {"workspace": {"path": ws}, "uid": -1},
                 {"workspace": {"path": ws}, "binds": [{"source": ws + "/no"}]},
                 {"workspace": {"path": ws}, "binds": [{"source": ws, "dest": "/"}]},
                 {"workspace": {"path": ws}, "binds": [{"source": ws, "dest": "/no/such/place"}]},
                 {"workspace": {"path": ws}, "binds": ["x"]},
                 {"workspace": {"path": ws}, "binds": [{"source": ws}] * 100},
                 {"workspace": {"path": ws}, "extra_writable": [7]},
                 {"workspace": {"path": ws}, "extra_writable": ["/"]},
                 {"workspace": {"path": ws}, "env_passthrough": {"mode": "some"}},
                 {"workspace": {"path": ws}, "idle_timeout_seconds": -5}):
        error(call("POST", "/session", body), 400, "INVALID_REQUEST_BODY")
    assert json.loads(call("GET", "/sessions").body) == {"sessions": []}


@case
def diff_and_commit_are_not_supported():
    with Session(fresh()) as s:
        error(call("GET", f"/session/{s.id}/diff"), 503, "NOT_SUPPORTED")
        error(call("POST", f"/session/{s.id}/commit"), 503, "NOT_SUPPORTED")


@case
def idle_sessions_end():
    s = Session(fresh(), idle_timeout_seconds=1)
    until(lambda: call("GET", f"/session/{s.id}").status == 404, "ended for idleness")
    with Session(fresh(), idle_timeout_seconds=1) as s:
        assert s.run("sleep 2; echo awake") == (["awake"], 0)  # at work is not idle


@case
def a_session_whose_first_process_dies():
    ws = fresh()
    s = Session(ws, "rw")
    s.run("echo $PPID > /dev/null; sleep 54321 &")
    os.kill(descendants("execd-inside --listen-fd")[0], 9)
    until(lambda: json.loads(call("GET", f"/session/{s.id}").body)["status"] == "dead", "dead")
    assert call("POST", f"/session/{s.id}/run", {"code": "true"}).status == 410
    assert call("DELETE", f"/session/{s.id}").status == 200


@case
def sessions_leave_nothing_behind():
    call("GET", "/sessions")
    with open("/proc/self/mountinfo", encoding="ascii") as f:
        mounts = len(f.readlines())
    Session(fresh()).__exit__()
    time_limit = time.monotonic() + DEADLINE
    fds = None
    for _ in range(10):
        with Session(fresh()) as s:
            s.run("true")
        if fds is None:
            until(lambda: not descendants("execd-"), "no process is left")
            fds = execd.fds()
    until(lambda: execd.fds() <= fds, "descriptors closed")
    with open("/proc/self/mountinfo", encoding="ascii") as f:
        assert len(f.readlines()) == mounts
    assert time.monotonic() < time_limit + DEADLINE


@case
def honest_where_it_cannot_be():
    """Without the rights, and with user namespaces forbidden, execd says so."""
    argv = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "--bounding-set=-all"]
    limited = subprocess.Popen(
        ["prlimit", "--nproc=4096", *argv, execd.argv[0], "--port", "0"], stdout=subprocess.PIPE,
        cwd="/")
    try:
        line = limited.stdout.readline()
        port = int(line.rsplit(b":", 1)[1])
        s = socket.create_connection(("127.0.0.1", port), timeout=DEADLINE)
        s.sendall(b"GET /v1/isolated/capabilities HTTP/1.1\r\nHost: x\r\n\r\n")
        reader = Reader(s)
        got = json.loads(reader.reply().body)
        assert got["setpriv_available"] is False
        assert got["available"] == got["userns_available"]
        body = json.dumps({"workspace": {"path": TOP}}).encode()
        s.sendall(b"POST /v1/isolated/session HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n"
                  % len(body) + body)
        error(reader.reply(), 503, "NOT_SUPPORTED", "isolation unavailable")
        s.close()
    finally:
        limited.kill()
        limited.wait()
        limited.stdout.close()


def end():
    if not CAPABILITIES["available"]:
        code = execd.stop()
        shutil.rmtree(TOP, ignore_errors=True)
        print("isolation is not available here: " + CAPABILITIES["message"])
        sys.exit(77 if code == 0 else 1)
    failed = run_cases(sys.argv[1] if len(sys.argv) > 1 else None)
    code = execd.stop()
    shutil.rmtree(TOP, ignore_errors=True)
    print("ok execd_ended_well" if code == 0 else f"not ok execd ended with {code}")
    sys.exit(1 if failed or code != 0 else 0)


end()
