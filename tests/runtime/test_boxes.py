#!/usr/bin/env python3
"""Life of a sandbox: made, used, paused, dialled, deleted, and nothing left of it.
timeout: 600"""

import os
import socket
import stat
import sys
import threading

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from boxes import *  # noqa: E402,F403

need_root()


@case
def made_used_and_deleted():
    with Runner() as r:
        item = r.create("one", spec=b"opaque\0bytes")
        assert item.state == RUNNING and item.pid > 1 and item.uid_base >= 0x70000000
        code, out = r.shell("one", "id -u; hostname; pwd; echo $$ > /tmp/pid; cat /etc/hostname")
        assert (code, out.split()) == (0, ["0", "one", "/", "one"]), out
        reading, writing = os.pipe()
        s = r.connect("one")
        socket.send_fds(s, [b"-\0spec\0"], [writing])
        os.close(writing)
        assert s.recv(1) == b"" and os.read(reading, 100) == b"opaque\0bytes"
        r.delete("one")
        for op in (r.delete, r.pause, r.resume, r.stat):
            try:
                op("one")
                raise AssertionError("it is gone")
            except Refused as e:
                assert e.code == errno.ENOENT, e
        left = census(r)
        assert not any(left.values()), left


@case
def host_image_runs_programs():
    with Runner() as r:
        r.create("h")
        code, out = r.run("h", "python3", "-c", "import ssl, json, os, sys; print(6 * 7, os.getuid())")
        assert (code, out) == (0, "42 0\n"), out
        code, out = r.shell("h", "touch /usr/x")
        assert code != 0 and "Read-only" in out
        code, out = r.shell("h", "echo a > /root/f && echo b > /home/f && echo c > /opt/f && "
                            "echo d > /var/f && echo e > /etc/f && echo f > /tmp/f && cat /etc/passwd")
        assert code == 0 and "root:x:0:0" in out, out
        assert not os.path.exists("/root/f") and not os.path.exists("/opt/f")
        code, out = r.shell("h", "cat /etc/shadow /etc/sudoers /etc/ssh/* 2>&1; ls /root /home /etc/ssl")
        assert "$" not in out.replace("/etc/ssh/*", "") and "private" not in out, out
        code, out = r.run("h", "sh", "-c", "id -u; touch /home/sandbox/x /tmp/y && ls /root", uid=1000)
        assert out.startswith("1000\n") and "denied" in out, out


@case
def own_namespaces_and_no_view_of_the_host():
    with Runner() as r:
        item = r.create("ns")
        for kind in ("user", "mnt", "pid", "net", "ipc", "uts", "cgroup"):
            inside = os.readlink(f"/proc/{item.pid}/ns/{kind}")
            assert inside != os.readlink(f"/proc/self/ns/{kind}"), kind
        code, out = r.shell("ns", "ls -d /proc/[0-9]*; cat /proc/self/mountinfo")
        assert r.state not in out and "osb-test" not in out
        assert len([w for w in out.split() if w.startswith("/proc/") and w[6:].isdigit()]) <= 4, out
        with open(f"/proc/{item.pid}/uid_map") as f:
            assert f.read().split() == ["0", str(item.uid_base), "65536"]


@case
def the_old_limit_of_core_dumps_is_told_or_refused():
    with Runner() as r:
        r.create("core")
        script = ("import resource as r\n"
                  "print(r.prlimit(0, r.RLIMIT_CORE), r.getrlimit(r.RLIMIT_CORE))\n"
                  "r.setrlimit(r.RLIMIT_CORE, (0, 0))\n"
                  "try:\n    print(r.prlimit(0, r.RLIMIT_CORE, (0, 0)))\n"
                  "except PermissionError:\n    print('refused')")
        code, out = r.run("core", "python3", "-c", script)
        assert (code, out) == (0, "(1, 1) (1, 1)\nrefused\n"), out


def session_keyrings(uid):
    """Those that this user of the host may see: serial numbers. Each shows to its owner alone."""
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(reading)
        os.setgroups([])
        os.setresgid(uid, uid, uid)
        os.setresuid(uid, uid, uid)
        with open("/proc/keys", "rb") as f, open(writing, "wb") as out:
            out.write(f.read())
        os._exit(0)
    os.close(writing)
    with open(reading, encoding="ascii") as f:
        lines = [line.split() for line in f]
    assert os.waitpid(pid, 0)[1] == 0
    return {line[0] for line in lines if line[5] == str(uid) and line[7:9] == ["keyring", "_ses:"]}


@case
def a_keyring_of_its_own_comes_and_goes_with_it():
    if not os.path.exists("/proc/keys"):
        raise Skip("this kernel has no keys")
    with Runner() as r:
        a, b = r.create("a"), r.create("b")
        seen = {item.uid_base: session_keyrings(item.uid_base) for item in (a, b)}
        r.delete("a")
        # others on this machine may have sandboxes with the same users; that it goes shows that it was this one's
        deadline = time.monotonic() + DEADLINE_S
        while not seen[a.uid_base] - session_keyrings(a.uid_base):
            assert time.monotonic() < deadline, "no keyring went with it"
            r.list()
        assert session_keyrings(b.uid_base) & seen[b.uid_base], "the other one has none"


@case
def two_have_different_ranges_and_files():
    with Runner() as r:
        a, b = r.create("a"), r.create("b")
        assert abs(a.uid_base - b.uid_base) >= 65536
        r.shell("a", "echo secret > /tmp/x; chmod 644 /tmp/x")
        code, _ = r.shell("b", "test -e /tmp/x")
        assert code == 1
        # on disk the image's own ids, whoever runs on them
        path = os.path.join(r.state, "sandboxes", "a", "up", "tmp", "x")
        st = os.stat(path)
        assert (st.st_uid, st.st_gid) == (0, 0)


@case
def same_id_twice_is_refused():
    with Runner() as r:
        r.create("x")
        try:
            r.create("x")
            raise AssertionError("made twice")
        except Refused as e:
            assert e.code == errno.EEXIST, e
        assert r.shell("x", "true")[0] == 0


@case
def nonsense_is_refused_and_leaves_nothing():
    with Runner() as r:
        bad = [dict(box="UPPER"), dict(box="-x"), dict(box="a/b"), dict(box="..", ),
               dict(box="x", hostname="a b"), dict(box="x", memory_bytes=1),
               dict(box="x", cpu_milli=1), dict(box="x", pids=1), dict(box="x", reserved=1),
               dict(box="x", rootfs=9), dict(box="x", rootfs=LAYERS),
               dict(box="x", rootfs=LAYERS, layers=["../x"]),
               dict(box="x", rootfs=LAYERS, layers=["missing"]),
               dict(box="x", rootfs=DIR, directory="/etc"),
               dict(box="x", volumes=[(FROM_STORE, "../a", "/v", 0)]),
               dict(box="x", volumes=[(FROM_HOST, "/etc", "/v", 0)]),
               dict(box="x", volumes=[(FROM_STORE, "v", "/proc/x", 0)]),
               dict(box="x", volumes=[(FROM_STORE, "v", "rel", 0)])]
        for options in bad:
            try:
                r.create(**options)
                raise AssertionError(f"accepted: {options}")
            except Refused as e:
                assert e.code in (errno.EINVAL, errno.ENOENT, errno.EPERM), (options, e)
        assert not any(census(r).values()), census(r)


@case
def broken_packets_end_the_connection():
    packets = [b"", b"x", bytes(Plain(head=Head(LIST, 16, 1))) + b"x",
               bytes(Plain(head=Head(99, 16, 1))), bytes(Plain(head=Head(EVENT, 16, 1))),
               bytes(Plain(head=Head(LIST, 17, 1))), bytes(Plain(head=Head(0, 16, 1)))]
    for packet in packets[1:]:
        with Runner() as r:
            r.sock.send(packet)
            assert r.sock.recv(100) == b"", packet
            assert r.process.wait(DEADLINE_S) == 0
    # descriptors where none belong, and none where they do
    with Runner() as r:
        socket.send_fds(r.sock, [bytes(Plain(head=Head(LIST, 16, 1)))], [0])
        assert r.sock.recv(100) == b""
        assert r.process.wait(DEADLINE_S) == 0
    with Runner() as r:
        m = Create(id=b"x", hostname=b"x", rootfs=HOST)
        m.head = Head(CREATE, C.sizeof(m), 1)
        r.sock.send(bytes(m))
        assert r.sock.recv(100) == b""
        assert r.process.wait(DEADLINE_S) == 0


@case
def unsealed_programs_are_refused():
    with Runner() as r:
        fd = os.memfd_create("open", os.MFD_ALLOW_SEALING)
        os.write(fd, b"#!/bin/sh\n")
        r.execd, kept = fd, r.execd
        try:
            r.create("x")
            raise AssertionError("accepted")
        except Refused as e:
            assert e.code == errno.EINVAL, e
        r.execd = kept
        os.close(fd)
        assert not any(census(r).values())


@case
def program_that_cannot_start_is_told():
    with Runner() as r:
        r.execd, kept = sealed(b"this is no program"), r.execd
        try:
            r.create("x")
            raise AssertionError("accepted")
        except Refused as e:
            assert "execd" in e.text, e
        os.close(r.execd)
        r.execd = kept
        assert not any(census(r).values()), census(r)


@case
def end_of_pid_1_is_an_event():
    with Runner() as r:
        item = r.create("x")
        os.kill(item.pid, signal.SIGKILL)
        e = r.event("x", EXITED)
        assert e.status == 9, e.status
        assert r.list()["x"].state == DEAD and r.list()["x"].status == 9
        for op in (r.pause, r.resume):
            try:
                op("x")
                raise AssertionError("it has ended")
            except Refused as err:
                assert err.code == errno.ECONNREFUSED
        try:
            r.dial("x", 80)
            raise AssertionError("it has ended")
        except Refused as err:
            assert err.code == errno.ECONNREFUSED
        r.delete("x")
        assert not any(census(r).values()), census(r)


@case
def pause_stops_and_resume_goes_on():
    with Runner() as r:
        if not r.features & CAN_PAUSE:
            raise Skip("no freezer")
        r.create("p")
        s, reading = r.start_in("p", "sh", "-c", "while :; do echo x; done")
        os.read(reading, 10)
        os.set_blocking(reading, False)
        for _ in range(10):
            r.pause("p")
            assert r.list()["p"].state == PAUSED
            try:
                while True:  # what was written before
                    os.read(reading, 65536)
            except BlockingIOError:
                pass
            try:
                r.pause("p")
                raise AssertionError("paused twice")
            except Refused as e:
                assert e.code == errno.EBUSY
            assert not select.select([reading], [], [], 0.05)[0], "it works on"
            r.resume("p")
            assert select.select([reading], [], [], DEADLINE_S)[0], "it does not go on"
        r.pause("p")
        r.delete("p")
        os.close(reading)
        s.close()
        assert not any(census(r).values()), census(r)


@case
def dial_reaches_loopback_without_network():
    server = ("import socket\ns = socket.create_server(('127.0.0.1', 8123))\nprint('up', flush=True)\n"
              "c, _ = s.accept()\nc.sendall(b'hello ' + c.recv(100))\n")
    with Runner() as r:
        r.create("d")
        s, reading = r.start_in("d", "python3", "-c", server)
        assert os.read(reading, 10) == b"up\n"
        with r.dial("d", 8123) as c:
            c.setblocking(True)
            c.settimeout(DEADLINE_S)
            c.sendall(b"you")
            assert c.recv(100) == b"hello you"
        with r.dial("d", 81) as c:
            select.select([], [c], [], DEADLINE_S)
            assert c.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR) == errno.ECONNREFUSED
        code, out = r.run("d", "python3", "-c", "import socket; print(len(socket.if_nameindex()))")
        assert out == "1\n", out
        os.close(reading)
        s.close()


@case
def log_goes_to_the_pipe():
    with Runner() as r:
        reading, writing = os.pipe()
        r.create("l", log=writing)
        os.close(writing)
        assert os.read(reading, 100) == b"ready\n"
        r.delete("l")
        assert os.read(reading, 100) == b""
        os.close(reading)


@case
def layers_stack_and_keep_their_ids():
    with Runner() as r:
        for name, text in (("base", "base"), ("top", "top")):
            d = os.path.join(r.state, "layers", name)
            os.makedirs(os.path.join(d, "etc"))
            with open(os.path.join(d, "etc", "which"), "w") as f:
                f.write(text)
        base = os.path.join(r.state, "layers", "base")
        os.makedirs(os.path.join(base, "bin"))
        shutil.copy("/usr/bin/busybox", os.path.join(base, "bin", "sh")) if os.path.exists(
            "/usr/bin/busybox") else None
        with open(os.path.join(base, "etc", "www"), "w") as f:
            f.write("web")
        os.chown(f.name, 33, 33)
        os.chmod(f.name, 0o600)
        probe = os.path.join(BUILD, "tests", "escape", "probe")
        r.create("s", rootfs=LAYERS, layers=["top", "base"])
        code, out = r.run("s", "probe", "cat", "/etc/which", program=probe)
        assert out == "top", out
        code, out = r.run("s", "probe", "cat", "/etc/www", program=probe, uid=33)
        assert out == "web", out
        code, out = r.run("s", "probe", "cat", "/etc/www", program=probe, uid=34)
        assert code != 0
        r.delete("s")
        # the image stays as it was
        assert os.stat(f.name).st_uid == 33
        assert sorted(os.listdir(os.path.join(base, "etc"))) == ["which", "www"]


@case
def rootfs_directory_needs_the_allow_list():
    with tempfile.TemporaryDirectory(dir="/var/tmp") as d:
        os.makedirs(os.path.join(d, "image", "etc"))
        with Runner("--allow-path", d) as r:
            probe = os.path.join(BUILD, "tests", "escape", "probe")
            r.create("ok", rootfs=DIR, directory=os.path.join(d, "image"))
            code, out = r.run("ok", "probe", "ls", "/", program=probe)
            assert "etc" in out and "usr" not in out, out
            assert os.listdir(os.path.join(d, "image")) == ["etc"]


@case
def volumes_are_shared_and_read_only_when_asked():
    with tempfile.TemporaryDirectory(dir="/var/tmp") as d:
        os.makedirs(os.path.join(d, "in"))
        with Runner("--allow-path", d) as r:
            os.makedirs(os.path.join(r.state, "volumes", "data"))
            volumes = [(FROM_STORE, "data", "/data", 0), (FROM_HOST, os.path.join(d, "in"), "/a/b/in", 1)]
            r.create("v", volumes=volumes)
            r.create("w", volumes=volumes)
            code, out = r.shell("v", "echo kept > /data/x && mkdir /data/d; touch /a/b/in/y")
            assert "Read-only" in out, out
            assert r.shell("w", "cat /data/x") == (0, "kept\n")
            assert os.stat(os.path.join(r.state, "volumes", "data", "x")).st_uid == 0
            code, out = r.shell("w", "grep /data /proc/self/mountinfo")
            assert "nosuid" in out and "nodev" in out, out
            r.delete("v")
            r.delete("w")
            assert open(os.path.join(r.state, "volumes", "data", "x")).read() == "kept\n"


@case
def read_only_root():
    with Runner() as r:
        r.create("ro", readonly=True)
        code, out = r.shell("ro", "touch /tmp/x; touch /dev/shm/y && echo shm")
        assert "Read-only" in out and "shm" in out, out


@case
def delete_while_being_made_and_burst():
    with Runner("--pool", "32") as r:
        cookies = [r.begin(f"n{i}") for i in range(60)]
        deletes = [r.send(Named(id=f"n{i}".encode()), DELETE) for i in range(0, 60, 3)]
        done = 0
        for i, c in enumerate(cookies):
            try:
                r.wait(c, CREATE)
                done += 1
            except Refused as e:
                assert i % 3 == 0 and e.code == errno.ECANCELED, e
        assert done >= 40
        for c in deletes:
            r.wait(c, DELETE)
        assert len(r.list()) == 40
        for i in range(60):
            if i % 3:
                assert r.shell(f"n{i}", "true")[0] == 0
        for c in [r.send(Named(id=f"n{i}".encode()), DELETE) for i in range(60) if i % 3]:
            r.wait(c, DELETE)
        assert not any(census(r).values()), census(r)


@case
def many_rounds_leave_the_runner_as_it_was():
    def weigh(r):
        with open(f"/proc/{r.process.pid}/statm") as f:
            pages = int(f.read().split()[1])
        return pages, len(os.listdir(f"/proc/{r.process.pid}/fd"))

    if b"__asan_init" in open(RUNNER, "rb").read():
        raise Skip("a sanitizer keeps what was freed")
    with Runner("--pool", "0") as r:
        for i in range(20):
            r.create("x")
            r.delete("x")
        census(r)  # waits for the broom
        before = weigh(r)
        for i in range(200):
            r.create("x")
            r.delete("x")
        census(r)
        after = weigh(r)
        assert after[1] == before[1], (before, after)
        assert after[0] <= before[0] + 64, (before, after)


@case
def second_runner_on_one_directory_is_refused():
    with Runner() as r:
        a, b = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        p = subprocess.run([RUNNER, "--state-dir", r.state, "--fd", str(b.fileno())],
                           pass_fds=[b.fileno()], stderr=subprocess.PIPE)
        assert p.returncode == 1 and b"another runner" in p.stderr, p.stderr
        r.create("x")


@case
def a_state_directory_that_cannot_hold_sandboxes_is_refused():
    state = tempfile.mkdtemp(prefix="osb-test-", dir="/var/tmp")
    mount = ["unshare", "-m", "sh", "-c", f"mount -t ramfs none {state} && exec \"$@\"", "sh"]
    try:
        p = subprocess.run(mount + [RUNNER, "--state-dir", state, "--socket", state + "/s"], text=True,
                           stderr=subprocess.PIPE, timeout=DEADLINE_S)
        assert p.returncode == 1 and f"cannot live in '{state}'" in p.stderr, (p.returncode, p.stderr)
        assert "user xattrs" in p.stderr and "ready" not in p.stderr, p.stderr
    finally:
        os.rmdir(state)


@case
def what_is_not_the_runners_own_is_refused():
    for name, spoil in (("table", lambda p: os.chown(p, 1234, 1234)), ("table", lambda p: os.link(p, p + "2")),
                        ("lock", lambda p: os.chmod(p, 0o666)), ("sandboxes", lambda p: os.chown(p, 1234, 1234)),
                        ("trash", lambda p: os.chmod(p, 0o777))):
        with Runner() as r:
            r.kill()
            path = os.path.join(r.state, name)
            before = os.stat(path)
            spoil(path)
            a, b = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            p = subprocess.run([RUNNER, "--state-dir", r.state, "--fd", str(b.fileno())],
                               pass_fds=[b.fileno()], stderr=subprocess.PIPE)
            assert p.returncode == 1 and b"is not ours" in p.stderr, p.stderr
            a.close()
            b.close()
            os.chown(path, before.st_uid, before.st_gid)
            os.chmod(path, before.st_mode & 0o7777)
            if os.path.exists(path + "2"):
                os.unlink(path + "2")
            r.start()


@case
def listens_for_the_owner_of_the_state_directory():
    with tempfile.TemporaryDirectory(dir="/var/tmp") as d:
        state, path = os.path.join(d, "state"), os.path.join(d, "s")
        os.chmod(d, 0o755)
        os.mkdir(state)
        os.chown(state, 1234, 1234)
        p = subprocess.Popen([RUNNER, "--state-dir", state, "--socket", path, "--log-level", "info"],
                             stderr=subprocess.PIPE, text=True)
        while "ready" not in p.stderr.readline():
            assert p.poll() is None
        st = os.stat(path)
        assert (st.st_uid, stat.S_IMODE(st.st_mode)) == (1234, 0o600)
        hello = Hello(version=1)
        hello.head = Head(HELLO, C.sizeof(hello), 5)
        for _ in range(2):  # one after the other
            s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            s.settimeout(DEADLINE_S)
            s.connect(path)
            second = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            second.settimeout(DEADLINE_S)
            s.send(bytes(hello))
            assert len(s.recv(4096)) == C.sizeof(HelloReply)
            second.connect(path)
            assert second.recv(10) == b""  # one at a time
            second.close()
            s.close()
            while "gone" not in p.stderr.readline():
                assert p.poll() is None
        p.terminate()
        assert p.wait(DEADLINE_S) == 0
        p.stderr.close()


@case
def works_in_a_chroot():
    with tempfile.TemporaryDirectory(dir="/var/tmp") as d:
        inside = ["unshare", "-m", "sh", "-c", f"mount --make-rprivate / && mount --rbind / {d} && "
                  f"exec chroot {d} \"$@\"", "sh"]
        with Runner(prefix=inside) as r:
            r.create("x")
            assert r.shell("x", "echo on") == (0, "on\n")
            r.delete("x")
            assert not any(census(r).values()), census(r)


@case
def two_instances_do_not_meet():
    with Runner() as one, Runner() as two:
        assert one.tag != two.tag
        a, b = one.create("same"), two.create("same")
        assert abs(a.uid_base - b.uid_base) >= 65536
        one.delete("same")
        assert two.shell("same", "true")[0] == 0


@case
def big_trees_are_removed_too():
    with Runner() as r:
        r.create("big")
        code, out = r.shell("big", "mkdir -p /tmp/d && cd /tmp/d && for i in $(seq 60); do mkdir $i && cd $i; "
                            "done; cd /tmp; for i in $(seq 1500); do : > f$i; done; "
                            "mkdir -m 0 /tmp/closed; ln -s /etc /tmp/link; mkfifo /tmp/fifo")
        assert code == 0, out
        r.delete("big")
        deadline = time.monotonic() + DEADLINE_S
        while census(r)["trash"]:
            r.list()
            assert time.monotonic() < deadline
        assert not any(census(r).values()), census(r)


main()
