#!/usr/bin/env python3
"""Attempts to get out of a sandbox, as its root and as an ordinary user. Each must be refused, and a canary
outside (a file anyone may write, with a secret anyone may read) must not have been touched or told.
timeout: 900"""

import glob
import os
import socket
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "runtime"))
from boxes import *  # noqa: E402,F403

need_root()
PROBE = os.path.join(BUILD, "tests", "escape", "probe")


class Canary:
    """Something outside that is there for the taking, were it not for the sandbox."""

    def __enter__(self):
        self.dir = tempfile.mkdtemp(prefix="osb-canary-", dir="/var/tmp")
        os.chmod(self.dir, 0o777)
        self.path = os.path.join(self.dir, "canary")
        self.secret = "canary-" + os.urandom(8).hex()
        with open(self.path, "w") as f:
            f.write(self.secret)
        os.chmod(self.path, 0o666)
        self.before = self.look()
        return self

    def look(self):
        st = os.stat(self.path)
        return (open(self.path).read(), st.st_mtime_ns, st.st_mode, st.st_ino, sorted(os.listdir(self.dir)),
                open("/proc/sys/kernel/core_pattern").read(), socket.gethostname())

    def check(self, output=""):
        assert self.look() == self.before, "the canary was touched"
        assert self.secret not in output, "the canary's secret was told"

    def __exit__(self, *_):
        shutil.rmtree(self.dir)


def tries(name, argv=lambda c: [], network=False):
    """One attempt of the probe, as root and as uid 1000."""
    with Canary() as c, Runner() as r:
        before = os.pread(r.execd, 1 << 24, 0)
        r.create("box", network=network)
        for uid in (0, 1000):
            code, out = r.run("box", "probe", name, *argv(c), uid=uid, program=PROBE)
            assert code == 0 and "refused" in out and "WORKED" not in out, f"as {uid}:\n{out}"
            c.check(out)
        assert r.shell("box", "echo alive") == (0, "alive\n")
        assert os.pread(r.execd, 1 << 24, 0) == before


@case
def E01_proc_self_exe_overwrite():
    tries("E01")


@case
def E02_cwd_fd_leak():
    tries("E02")


@case
def E03_inherited_fd_census():
    tries("E03")
    with Runner() as r:
        item = r.create("box")
        assert r.shell("box", "true")[0] == 0  # the stand-in has begun
        found = {}
        for fd in os.listdir(f"/proc/{item.pid}/fd"):
            found[int(fd)] = os.readlink(f"/proc/{item.pid}/fd/{fd}")
        assert sorted(found) == [0, 1, 2, 3, 4, 5], found
        assert found[0] == found[1] == found[2] == "/dev/null", found
        assert found[3].startswith("socket:") and "memfd:spec" in found[4], found
        assert "signalfd" in found[5], found  # the stand-in's own


@case
def E04_masked_path_devnull_symlink():
    tries("E04", lambda c: [c.path])
    # an image that brings its own /dev/null, as a link
    with Canary() as c, Runner() as r:
        layer = os.path.join(r.state, "layers", "l")
        os.makedirs(os.path.join(layer, "dev"))
        os.symlink(c.path, os.path.join(layer, "dev", "null"))
        r.create("box", rootfs=LAYERS, layers=["l"])
        code, out = r.run("box", "probe", "E04", c.path, program=PROBE)
        assert code == 0 and "WORKED" not in out, out
        c.check(out)


@case
def E06_procfs_write_redirect():
    """What the runner writes into an image must not be led elsewhere, least of all into procfs."""
    targets = ["/proc/sysrq-trigger", "/proc/self/attr/exec", "/proc/sys/kernel/core_pattern",
               "/proc/1/root/CANARY", "/../../../../../../CANARY", "/dev/null", "/sys/x"]
    with Canary() as c, Runner() as r:
        for i, target in enumerate(targets):
            layer = os.path.join(r.state, "layers", f"l{i}")
            os.makedirs(os.path.join(layer, "etc"))
            for name in ("hosts", "hostname", "resolv.conf"):
                os.symlink(target.replace("CANARY", c.path.lstrip("/")), os.path.join(layer, "etc", name))
            r.create(f"b{i}", rootfs=LAYERS, layers=[f"l{i}"])
            code, out = r.run(f"b{i}", "probe", "cat", "/etc/hostname", program=PROBE)
            assert out in (f"b{i}\n", "") or "No such" in out, (target, out)
            c.check(out)
        # and directories that are links or files: refused with words, or taken inside
        for i, name in enumerate(("proc", "sys", "dev", "etc")):
            layer = os.path.join(r.state, "layers", f"d{i}")
            os.makedirs(layer)
            os.symlink(c.dir, os.path.join(layer, name))
            try:
                r.create(f"d{i}", rootfs=LAYERS, layers=[f"d{i}"])
                assert name == "etc", name
            except Refused as e:
                assert name in e.text or name == "etc", e
            c.check()


@case
def E09_volume_target_symlink_race():
    swap = ("import os, sys\nos.mkdir('/v/dir')\nos.symlink(sys.argv[1], '/v/link')\nprint('up', flush=True)\n"
            "while True:\n    for kind in ('dir', 'link'):\n        try:\n            os.rename('/v/' + kind, '/v/t')\n"
            "            os.rename('/v/t', '/v/' + kind)\n        except OSError: pass\n")
    with Canary() as c, Runner() as r:
        for name in ("shared", "other"):
            os.makedirs(os.path.join(r.state, "volumes", name))
        shared = (FROM_STORE, "shared", "/v", 0)
        r.create("racer", volumes=[shared])
        s, reading = r.start_in("racer", "python3", "-c", swap, c.dir)
        assert os.read(reading, 10) == b"up\n"
        made = 0
        for i in range(60):
            try:
                r.create("b", volumes=[shared, (FROM_STORE, "other", "/v/t", 0)])
                made += 1
                r.shell("b", "echo x > /v/t/mark")
                r.delete("b")
            except Refused as e:
                assert e.code in (errno.ENOENT, errno.ENOTDIR, errno.EEXIST, errno.ELOOP, errno.EBUSY), e
            c.check()
        assert made > 0
        os.close(reading)
        s.close()


@case
def E11_host_path_not_allowlisted():
    with Canary() as c, tempfile.TemporaryDirectory(dir="/var/tmp") as d:
        os.makedirs(os.path.join(d, "ok"))
        os.symlink(c.dir, os.path.join(d, "link"))
        os.symlink("/", os.path.join(d, "ok", "root"))
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(os.path.join(d, "docker.sock"))
        with Runner("--allow-path", d) as r:
            r.create("fine", volumes=[(FROM_HOST, os.path.join(d, "ok"), "/m", 1)])
            for path in (c.dir, "/", "/etc", d + "/..", d + "/ok/../..", os.path.join(d, "link"),
                         os.path.join(d, "ok", "root"), os.path.join(d, "ok", "root", "etc"), d + "x",
                         os.path.join(d, "docker.sock"), "/var/run/docker.sock", "/proc/self/root", "relative",
                         "//etc", d + "/./ok"):
                for how in ({"volumes": [(FROM_HOST, path, "/m", 0)]}, {"rootfs": DIR, "directory": path}):
                    try:
                        r.create("box", **how)
                        raise AssertionError(f"accepted: {path}")
                    except Refused as e:
                        assert e.code in (errno.EPERM, errno.EINVAL, errno.ELOOP, errno.ENOTDIR), (path, e)
            c.check()
        listener.close()


@case
def E12_open_by_handle_at():
    tries("E12")


@case
def E13_mknod_and_raw_disk():
    tries("E13")


@case
def E16_proc_root_of_others():
    tries("E16", lambda c: [c.path])


@case
def E21_kernel_helpers():
    tries("E21", lambda c: [f"|{c.path}"])


@case
def E23_cgroup_climb():
    tries("E23")


@case
def E24_unshare_newuser():
    tries("E24")


@case
def E25_inner_system_calls():
    tries("E25")


@case
def E29_ptrace_of_pid_1():
    tries("E29")


@case
def E31_socket_families():
    tries("E31")
    tries("E31", network=True)


@case
def E33_foreign_system_calls():
    tries("E33")


@case
def E36_new_mount_api():
    tries("E36")


@case
def E38_capabilities_as_promised():
    with Runner() as r:
        item = r.create("box")
        status = open(f"/proc/{item.pid}/status").read()
        values = dict(line.split(":\t", 1) for line in status.splitlines() if ":\t" in line)
        # chown, dac_override, fowner, fsetid, kill, setgid, setuid, setpcap, net_bind_service,
        # sys_chroot, setfcap
        kept = sum(1 << n for n in (0, 1, 3, 4, 5, 6, 7, 8, 10, 18, 31))
        for name in ("CapPrm", "CapEff", "CapBnd"):
            assert int(values[name], 16) == kept, (name, values[name])
        for name in ("CapInh", "CapAmb"):
            assert int(values[name], 16) == 0
        assert values["NoNewPrivs"] == "1" and values["Seccomp"] == "2"
        code, out = r.run("box", "grep", "CapEff", "/proc/self/status", uid=1000)
        assert int(out.split()[1], 16) == 0, out


@case
def E41_sockets_of_the_host():
    with Canary() as c, Runner() as r:
        path, name = os.path.join(c.dir, "s"), "@osb-canary"
        listeners = [socket.socket(socket.AF_UNIX), socket.socket(socket.AF_UNIX)]
        listeners[0].bind(path)
        listeners[1].bind("\0osb-canary")
        for x in listeners:
            x.listen()
            x.settimeout(0)
        os.chmod(path, 0o777)
        r.create("box")
        for uid in (0, 1000):
            code, out = r.run("box", "probe", "E41", path, name, os.path.join(r.state, "sock", "box"),
                              uid=uid, program=PROBE)
            assert code == 0 and "WORKED" not in out, out
        for x in listeners:
            try:
                x.accept()
                raise AssertionError("somebody came through")
            except BlockingIOError:
                pass
            x.close()


@case
def E42_metadata_services():
    addresses = ["169.254.169.254", "100.100.100.200", "168.63.129.16", "192.0.0.192", "fd00:ec2::254"]
    argv = [x for a in addresses for x in (a, "80")]
    with Canary() as c, Runner("--ipv6") as r:
        listeners = []
        try:
            for a in addresses:
                six = ":" in a
                subprocess.run(["ip", "addr", "add", a + ("/128" if six else "/32"), "dev", "lo"] +
                               (["nodad"] if six else []), check=True)
                s = socket.create_server((a, 80), family=socket.AF_INET6 if six else socket.AF_INET)
                s.settimeout(0)
                listeners.append(s)
            for box, network in (("on", True), ("off", False)):
                r.create(box, network=network)
                for uid in (0, 1000):
                    code, out = r.run(box, "probe", "E42", *argv, uid=uid, program=PROBE)
                    assert code == 0 and out.count("refused") == len(addresses), out
            for s in listeners:
                try:
                    s.accept()
                    raise AssertionError("somebody came through")
                except BlockingIOError:
                    pass
        finally:
            for s in listeners:
                s.close()
            for a in addresses:
                subprocess.run(["ip", "addr", "del", a + ("/128" if ":" in a else "/32"), "dev", "lo"])


def processes_of(uid_base, before=()):
    """(pid's status file, name) of all processes with an id of that range"""
    found = []
    for path in glob.glob("/proc/[0-9]*/status"):
        try:
            text = open(path).read()
        except OSError:
            continue
        uid = int(next(line for line in text.splitlines() if line.startswith("Uid:")).split()[1])
        if uid_base <= uid < uid_base + 65536 and path not in before:
            found.append((path, text.split("\n", 1)[0]))
    return found


@case
def E63_survivor_after_delete():
    with Runner() as r:
        for how in ("running", "paused", "killed"):
            before = set(glob.glob("/proc/[0-9]*/status"))
            item = r.create("box")
            for uid in (0, 1000):
                s, reading = r.start_in("box", "probe", "survivor", uid=uid, program=PROBE)
                word = os.read(reading, 100)
                assert word == b"hiding\n", (uid, word)
                os.close(reading)
                s.close()
            assert len(processes_of(item.uid_base, before)) >= 3
            if how == "paused":
                r.pause("box")
            if how == "killed":
                os.kill(item.pid, signal.SIGKILL)
                r.event("box", EXITED)
                assert processes_of(item.uid_base, before) == []
            r.delete("box")
            assert processes_of(item.uid_base, before) == [], how
        assert not any(census(r).values()), census(r)


@case
def E65_nothing_of_the_last_tenant():
    with Runner("--pool", "1") as r:
        seen = set()
        for i in range(6):
            item = r.create("same", network=True)
            assert (item.uid_base, item.ip4) not in seen, "range or address used again at once"
            seen.add((item.uid_base, item.ip4))
            for uid in (0, 1000):
                code, out = r.run("same", "probe", "E65", uid=uid, program=PROBE)
                assert code == 0, out
            for uid in (1000, 0):
                code, out = r.run("same", "probe", "poison", uid=uid, program=PROBE)
            assert code == 0, out
            r.delete("same")


main()
