#!/usr/bin/env python3
"""The runtime of an ordinary user: a user id that has no account and no rights but those everybody has. What can be
done works, what cannot be done is said at start and refused when asked for, and the boundaries are those of root.
timeout: 900"""

import glob
import os
import random
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(1, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "api"))
import boxes  # noqa: E402
from boxes import *  # noqa: E402,F403
from harness import until  # noqa: E402
from serverlib import Server, is_error  # noqa: E402

need_root()
UID = 23456
OTHERS = 300000  # where the ids begin that are set aside for it, in cases that need some
PROBE = os.path.join(BUILD, "tests", "escape", "probe")
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
DROP = ["setpriv", f"--reuid={UID}", f"--regid={UID}", "--clear-groups"]

_checked = subprocess.run([*DROP, "unshare", "--user", "--map-root-user", "--mount", "true"], cwd="/", check=False,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
if _checked.returncode != 0:
    skip(f"this kernel makes no user namespaces for ordinary users: {_checked.stdout.strip()}")


class Home:
    """A place of the user's: the programs, a home with a secret in it, a state directory. All gone in the end."""

    def __enter__(self):
        self.top = tempfile.mkdtemp(prefix="osb-rootless-", dir="/var/tmp")
        os.chmod(self.top, 0o755)
        self.bin, self.home, self.state = (os.path.join(self.top, n) for n in ("bin", "home", "state"))
        for path in (self.bin, self.home, self.state):
            os.mkdir(path, 0o755)
            os.chown(path, UID, UID)
        # the build may lie where this user cannot go
        for name in ("opensandbox-server", "opensandbox-runner", "execd"):
            shutil.copy(os.path.join(BUILD, name), self.bin)
        boxes.RUNNER = os.path.join(self.bin, "opensandbox-runner")
        self.secret = "canary-" + os.urandom(8).hex()
        self.canaries = []
        for name, mode in (("mine", 0o600), ("everybodys", 0o666)):
            path = os.path.join(self.home, name)
            with open(path, "w", encoding="ascii") as f:
                f.write(self.secret)
            os.chown(path, UID, UID)
            os.chmod(path, mode)
            self.canaries.append(path)
        self.before = self.look()
        return self

    def look(self):
        found = [(path, open(path, encoding="ascii").read(), os.stat(path).st_mtime_ns, os.stat(path).st_mode)
                 for path in self.canaries]
        return found, sorted(os.listdir(self.home))

    def check(self, output=""):
        assert self.look() == self.before, "the canary was touched"
        assert self.secret not in output, "the canary's secret was told"

    def processes(self):
        """Of the user or of ids that are his to give, with their names."""
        found = []
        for path in glob.glob("/proc/[0-9]*/status"):
            try:
                with open(path, encoding="utf-8", errors="replace") as f:
                    values = dict(line.split(":", 1) for line in f if ":" in line)
            except OSError:
                continue
            uid = int(values["Uid"].split()[0])
            if (uid == UID or OTHERS <= uid < OTHERS + 65536) and not values["State"].strip().startswith("Z"):
                found.append((path, values["Name"].strip()))
        return found

    def server(self, *options, **more):
        return Server("--config", "/dev/null", *options, path=os.path.join(self.bin, "opensandbox-server"),
                      state=self.state, env={"HOME": self.home}, cwd="/",
                      **{"user": UID, "group": UID, "extra_groups": [], **more})

    def runner(self, *options, prefix=()):
        return UserRunner(*options, state=self.state, prefix=[*prefix, *DROP])

    def is_empty(self):
        """Nothing of a sandbox is left, on disk or alive."""
        until(lambda: not os.listdir(os.path.join(self.state, "trash")), "the trash to go")
        left = {name: os.listdir(os.path.join(self.state, name))
                for name in ("sandboxes", "sock", "trash", "mnt") if os.path.isdir(os.path.join(self.state, name))}
        with open(os.path.join(self.state, "table"), "rb") as f:
            left["rows"] = [1 for byte in f.read() if byte]
        assert not any(left.values()), left
        with open("/proc/self/mountinfo", encoding="utf-8") as f:
            assert self.top not in f.read()

    def __exit__(self, kind, *_):
        try:
            if kind is None:
                until(lambda: not self.processes(), f"all of the user's processes to end: {self.processes()}")
        finally:
            for path, _name in self.processes():
                os.kill(int(path.split("/")[2]), signal.SIGKILL)
            until(lambda: not self.processes(), "what was killed to end")
            shutil.rmtree(self.top)


class UserRunner(Runner):
    """A runner of the user's; what we hand it must look as if it came from him."""

    def __init__(self, *options, **more):
        super().__init__(*options, **more)
        os.fchown(self.execd, UID, UID)

    def pair(self):
        os.setegid(UID)
        os.seteuid(UID)
        try:
            return super().pair()
        finally:
            os.seteuid(0)
            os.setegid(0)


def refused(code, fn, *args, **more):
    try:
        fn(*args, **more)
    except Refused as e:
        assert e.code == code, e
        return e.text
    raise AssertionError(f"accepted: {args} {more}")


@case
def says_what_is_missing():
    with Home() as home, home.runner() as r:
        assert r.features & ROOTLESS
        for bit in (CAN_NETWORK, CAN_IPV6, CAN_DISK):
            assert not r.features & bit, bit
        for words in ("network: ", "disk limits and ", "user ids of its own", "users other than root"):
            assert words in r.missing, (words, r.missing)
        assert len(r.missing) < 511, r.missing
        refused(errno.ENOTSUP, r.create, "box", network=True)
        refused(errno.ENOTSUP, r.create, "box", disk_bytes=64 << 20)
        for bit, limit in ((CAN_MEMORY, {"memory_bytes": 64 << 20}), (CAN_CPU, {"cpu_milli": 500}),
                           (CAN_IO, {"io_read_bps": 1 << 20})):
            if not r.features & bit:
                refused(errno.ENOTSUP, r.create, "box", **limit)
        item = r.create("box")
        assert item.uid_base == UID
        if not r.features & CAN_PAUSE:
            refused(errno.ENOTSUP, r.pause, "box")
        assert not any(census(r)[what] for what in ("trash", "mounts", "cgroups"))


@case
def without_user_namespaces_it_says_so_and_does_not_start():
    with Home() as home:
        # a user namespace in which no other can be made, with the user in it
        ready, go = os.pipe(), os.pipe()
        pid = os.fork()
        if pid == 0:
            os.close(go[1])
            if C.CDLL(None).unshare(0x10000000) != 0:
                os._exit(3)
            os.write(ready[1], b"x")
            os.read(go[0], 1)
            with open("/proc/sys/user/max_user_namespaces", "w", encoding="ascii") as f:
                f.write("0")
            os.setresgid(UID, UID, UID)
            os.setresuid(UID, UID, UID)
            sock = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)[0]
            os.set_inheritable(sock.fileno(), True)
            log = os.open(os.path.join(home.home, "log"), os.O_WRONLY | os.O_CREAT, 0o600)
            os.dup2(log, 2)
            os.chdir("/")
            os.execv(boxes.RUNNER, [boxes.RUNNER, "--state-dir", home.state, "--fd", str(sock.fileno())])
        assert os.read(ready[0], 1) == b"x"
        for name in ("uid_map", "gid_map"):
            with open(f"/proc/{pid}/{name}", "w", encoding="ascii") as f:
                f.write(f"0 0 1\n{UID} {UID} 1\n")
        os.write(go[1], b"x")
        _, status = os.waitpid(pid, 0)
        for fd in (*ready, *go):
            os.close(fd)
        with open(os.path.join(home.home, "log"), encoding="ascii") as f:
            text = f.read()
        assert os.waitstatus_to_exitcode(status) == 1, (status, text)
        assert "user namespaces for ordinary users" in text and "user.max_user_namespaces" in text, text
        assert os.listdir(home.state) == []


@case
def one_line_for_each_thing_at_start():
    with Home() as home:
        with tempfile.TemporaryFile() as log:
            with home.server(stderr=log) as server:
                assert server.call("GET", "/readyz").json["missing"]
            log.seek(0)
            lines = log.read().decode().splitlines()
        for words in ("network: it needs root", "disk limits and volumes with a size: they need root", "users other"):
            assert len([line for line in lines if words in line and "lacks" in line]) == 1, (words, lines)


@case
def a_sandbox_through_the_api():
    with Home() as home:
        with home.server() as server:
            box = server.make(resourceLimits={})
            assert server.run(box, "id -u; id -g") == "0\n0"
            assert server.run(box, "python3 -c 'print(6 * 7)'") == "42"
            assert server.run(box, "echo kept > /root/file; mkdir -p /home/sandbox/x; cat /root/file") == "kept"
            a = server.execd(box, "GET", "/files/download?path=/root/file")
            assert a.status == 200 and a.body == b"kept\n", (a.status, a.body)
            a = server.execd(box, "GET", "/files/info?path=/root/file")
            assert a.status == 200 and a.json["/root/file"]["owner"] == "root", a.body
            # of the user's own on disk, and nobody else's
            upper = os.path.join(home.state, "sandboxes", box, "up", "root", "file")
            assert os.stat(upper).st_uid == UID
            # a service that listens on loopback only, the only place there is
            assert server.run(box, "ls /sys/class/net 2>/dev/null; cat /proc/net/dev | tail -n +3 | cut -d: -f1"
                              ).split() == ["lo"]
            server.run(box, "cd /root && (python3 -m http.server --bind 127.0.0.1 8000 >/dev/null 2>&1 &)")
            prefix, headers = server.endpoint(box, 8000)
            until(lambda: server.call("GET", prefix + "/file", fields=headers).status == 200, "the service to answer")
            assert server.call("GET", prefix + "/file", fields=headers).body == b"kept\n"
            assert server.delete(box).status == 204
            home.is_empty()
        home.check()


@case
def images_and_volumes_of_the_users():
    with Home() as home:
        tree, shared = os.path.join(home.top, "tree"), os.path.join(home.home, "shared")
        os.makedirs(os.path.join(tree, "etc"))
        os.makedirs(shared)
        os.chown(shared, UID, UID)
        shutil.copy(os.path.join(BUILD, "execd"), os.path.join(tree, "program"))  # it is static, and stays
        with open(os.path.join(tree, "etc", "passwd"), "w", encoding="ascii") as f:
            f.write("root:x:0:0::/:/program\n")
        os.chown(os.path.join(tree, "etc", "passwd"), 33, 33)  # the user cannot give files away: it becomes root's
        tarball = os.path.join(home.top, "image.tar")
        subprocess.run(["tar", "-C", tree, "-cf", tarball, "."], check=True)
        subprocess.run([*DROP, os.path.join(home.bin, "opensandbox-server"), "image", "import", "small", tarball,
                        "--config", "/dev/null", "--state-dir", home.state], cwd="/", check=True, timeout=60)
        with home.server("--set", f"storage.allowed_host_paths={shared}") as server:
            volumes = [{"name": "v", "pvc": {"claimName": "kept"}, "mountPath": "/v"},
                       {"name": "h", "host": {"path": shared}, "mountPath": "/h"}]
            first = server.make(resourceLimits={}, volumes=volumes)
            assert server.run(first, "echo one > /v/f; echo two > /h/f; stat -c %u /v/f /h/f") == "0\n0"
            assert os.stat(os.path.join(shared, "f")).st_uid == UID
            assert server.run(server.make(resourceLimits={}, volumes=volumes), "cat /v/f /h/f") == "one\ntwo"
            small = server.make(resourceLimits={}, image={"uri": "small"}, entrypoint=["/program", "--port", "9000"])
            a = server.execd(small, "GET", "/files/info?path=/etc/passwd")
            assert a.status == 200 and a.json["/etc/passwd"]["owner"] == "root", a.body
            refusal = server.create(resourceLimits={}, volumes=[
                {"name": "h", "host": {"path": home.state}, "mountPath": "/h"}])
            is_error(refusal, 400, "VOLUME::HOST_PATH_NOT_ALLOWED")
        shutil.rmtree(shared)
        home.check()


@case
def file_systems_below_usr():
    """The kernel lets an ordinary user neither leave them out nor put them under an overlay."""
    with Home() as home:
        prefix = ["unshare", "--mount", "--propagation", "private", "sh", "-c",
                  'mount -t tmpfs below /usr/share/man && echo x > /usr/share/man/mark && exec "$@"', "sh"]
        with home.runner(prefix=prefix) as r:
            r.create("box")
            assert r.shell("box", "cat /usr/share/man/mark; python3 -c 'print(1)'") == (0, "x\n1\n")
            for path in ("/usr/x", "/usr/share/man/x"):
                code, out = r.shell("box", f"touch {path}")
                assert code != 0 and "Read-only" in out, (path, out)


@case
def groups_of_the_user_stay_his():
    """Where the kernel lets nobody leave groups, sandboxes are in them, and there is nothing that they open."""
    with Home() as home:
        path = os.path.join(home.home, "groups")
        with open(path, "w", encoding="ascii") as f:
            f.write(home.secret)
        os.chown(path, 0, 54321)
        os.chmod(path, 0o640)
        with home.server(extra_groups=[54321]) as server:
            box = server.make(resourceLimits={})
            out = server.run(box, f"id -G; cat {path} 2>&1; true")
            assert "No such file" in out and "54321" not in out, out
            assert home.secret not in out
        os.unlink(path)


@case
def what_cannot_be_is_refused():
    with Home() as home:
        with home.server() as server:
            a = server.create(resourceLimits={"disk": "1Gi"})
            is_error(a, 400, "SANDBOX::INVALID_RESOURCE_LIMIT")
            assert "runtime.unheld_limits" in a.json["message"], a.json
            is_error(server.create(resourceLimits={}, volumes=[
                {"name": "v", "pvc": {"claimName": "sized", "storage": "64Mi"}, "mountPath": "/v"}]), 400,
                     "SANDBOX::INVALID_RESOURCE_LIMIT")
            missing = server.call("GET", "/readyz").json["missing"]
            if "memory limits" in missing:
                is_error(server.create(resourceLimits={"cpu": "1", "memory": "256Mi"}), 400,
                         "SANDBOX::INVALID_RESOURCE_LIMIT")
            box = server.make(resourceLimits={})
            if "pause" in missing:
                is_error(server.call("POST", f"/v1/sandboxes/{box}/pause"), 400, "SANDBOX::PAUSE_NOT_SUPPORTED")
            # there is one user only, and who asks for another is told so
            a = server.execd(box, "POST", "/command", {"command": "id", "uid": 1000, "gid": 1000})
            assert b"no such id" in a.body, a.body
            a = server.execd(box, "POST", "/command", {"command": "id -u", "uid": 0})
            assert b'"text":"0"' in a.body, a.body
        with home.server("--set", "network.enabled=on") as server:
            is_error(server.create(resourceLimits={}), 400, "SANDBOX::API_NOT_SUPPORTED")


@case
def limits_may_be_ignored_and_that_is_told():
    """What official clients ask for by default works where the operator says that it may."""
    with Home() as home:
        with home.server("--set", "runtime.unheld_limits=ignore") as server:
            missing = server.call("GET", "/readyz").json["missing"]
            box = server.make(resourceLimits={"cpu": "1", "memory": "2Gi", "disk": "1Gi"})
            assert server.run(box, "echo fine") == "fine"
            events = server.call("GET", f"/v1/sandboxes/{box}/diagnostics/events?limit=50").body.decode()
            assert "not held on this host" in events and "disk" in events, events
            assert ("memory" in events) == ("memory limits" in missing), events
            # an unreadable or unknown one is refused all the same
            is_error(server.create(resourceLimits={"memory": "lots"}), 400, "SANDBOX::INVALID_RESOURCE_LIMIT")
            is_error(server.create(resourceLimits={"gold": "1"}), 400, "SANDBOX::INVALID_RESOURCE_LIMIT")


@case
def a_limit_of_processes_holds():
    fork = ("import os, signal\nn = 0\ntry:\n    while n < 200:\n        if os.fork() == 0:\n"
            "            signal.pause()\n        n += 1\nexcept BlockingIOError:\n    pass\nprint(n, flush=True)\n")
    with Home() as home, home.runner() as r:
        assert r.features & CAN_PIDS
        r.create("a", pids=20)
        r.create("b", pids=20)
        for box in ("a", "b"):  # each has a count of its own
            code, out = r.run(box, "python3", "-c", fork + "os.kill(0, 9)\n")
            n = int(out.split()[0])
            assert 10 <= n < 20, (box, code, out)
        r.restart()
        if not r.run("a", "cat", "/proc/self/cgroup")[1].count("opensandbox"):
            limit = "import resource; print(resource.getrlimit(resource.RLIMIT_NPROC))"
            assert r.run("a", "python3", "-c", limit) == (0, "(20, 20)\n")


@case
def users_where_ids_were_set_aside():
    if not os.path.exists("/usr/bin/newuidmap"):
        raise Skip("newuidmap is not installed")
    with Home() as home:
        # newuidmap wants to know the user's name
        files = {"passwd": f"osbuser:x:{UID}:{UID}::{home.home}:/bin/sh\n", "group": f"osbuser:x:{UID}:\n"}
        for name in ("subuid", "subgid"):
            files[name] = f"somebody:100000:65536\nosbuser:{OTHERS}:65536\n"
        for name, text in files.items():
            with open(os.path.join(home.top, name), "w", encoding="ascii") as f:
                f.write(text)
        script = "".join(f"mount --bind {home.top}/{name} /etc/{name} && " for name in files) + 'exec "$@"'
        prefix = ["unshare", "--mount", "--propagation", "private", "sh", "-c", script, "sh"]
        with home.runner(prefix=prefix) as r:
            assert "users other than root" not in r.missing, r.missing
            item = r.create("box")
            assert item.uid_base == UID
            assert r.shell("box", "id -u; id -g; echo x > /home/sandbox/x", uid=1000) == (0, "1000\n1000\n")
            assert r.shell("box", "stat -c %u:%g /home/sandbox/x; chown 33:33 /home/sandbox/x; id -G") == (
                0, "1000:1000\n0\n")
            upper = os.path.join(home.state, "sandboxes", "box", "up", "home", "sandbox", "x")
            assert os.stat(upper).st_uid == OTHERS + 32, os.stat(upper)
            # one user could have many processes in the name of others, so no limit of them is promised
            if not r.features & CAN_PIDS:
                refused(errno.ENOTSUP, r.create, "limited", pids=20)
            r.restart()
            assert r.shell("box", "id -u", uid=1000) == (0, "1000\n")
            # what is closed to everybody goes all the same
            assert r.shell("box", "cd /home/sandbox && mkdir -p a/b/c && touch a/b/c/d && chmod 0 a/b/c/d a/b/c a/b a",
                           uid=1000)[0] == 0
            r.delete("box")
            assert census(r)["boxes"] == census(r)["trash"] == []


@case
def sandboxes_outlive_a_killed_runner():
    with Home() as home, home.runner() as r:
        before = r.create("a", spec=b"s")
        r.create("b")
        space = os.readlink(f"/proc/{r.process.pid}/ns/user")
        r.kill()
        assert r.shell("a", "echo still here; echo x > /kept") == (0, "still here\n")
        r.start()
        assert os.readlink(f"/proc/{r.process.pid}/ns/user") == space, "another user namespace"
        found = r.list()
        assert set(found) == {"a", "b"} and all(i.state == RUNNING for i in found.values())
        assert found["a"].pid == before.pid
        with r.dial("a", 9) as c:  # reached in its own network, by the one who follows
            select.select([], [c], [], DEADLINE_S)
            assert c.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR) == errno.ECONNREFUSED
        r.create("c")
        fd = os.pidfd_open(found["b"].pid)
        r.kill()
        signal.pidfd_send_signal(fd, signal.SIGKILL)
        select.select([fd], [], [], DEADLINE_S)
        os.close(fd)
        r.start()
        assert {name: i.state for name, i in r.list().items()} == {"a": RUNNING, "b": DEAD, "c": RUNNING}
        for box in "abc":
            r.delete(box)
        until(lambda: not any(census(r)[what] for what in ("trash", "boxes", "sockets")) or r.list(), "the sweep")
        left = census(r)
        assert not any(left.values()), left
        # with the last of them gone the next one begins anew
        r.restart()
        r.create("d")
        assert r.shell("d", "echo new") == (0, "new\n")


@case
def kill_9_of_server_and_runner():
    with Home() as home:
        server = home.server(keep=True)
        box = server.make(resourceLimits={})
        server.run(box, "echo before > /root/file")
        runner = server.runner_pid()
        os.kill(runner, signal.SIGKILL)
        server.kill()
        with home.server() as server:
            assert server.state_of(box) == "Running"
            assert server.run(box, "cat /root/file") == "before"
            os.kill(server.runner_pid(), signal.SIGKILL)
            until(lambda: server.call("GET", "/readyz").status == 200 and
                  server.create(resourceLimits={}).status == 202, "the runner to be back")
            assert server.run(box, "cat /root/file") == "before"
            server.run(box, "(python3 -m http.server --bind 127.0.0.1 8000 >/dev/null 2>&1 &)")
            prefix, headers = server.endpoint(box, 8000)
            until(lambda: server.call("GET", prefix + "/", fields=headers).status == 200, "the service to answer")
        home.is_empty()


@case
def killed_at_any_instant_nothing_is_left():
    chance = random.Random(7)
    with Home() as home, home.runner() as r:
        for n in range(12):
            for i in range(6):
                r.begin(f"r{n}b{i}")
            select.select([], [], [], chance.random() * 0.03)  # somewhere in the middle
            r.restart()
            for box, item in r.list().items():
                if item.state == RUNNING:
                    assert r.shell(box, "echo on") == (0, "on\n"), box
                r.delete(box)
        until(lambda: not census(r)["trash"] or r.list(), "the sweep")
        left = census(r)
        assert not any(left.values()), left
        spaces = {os.readlink(f"/proc/{path.split('/')[2]}/ns/user") for path, _ in home.processes()}
        assert len(spaces) == 1, home.processes()  # the runner's own


class Delegated:
    """A cgroup of each hierarchy that was given to the user, and one below it to start in."""

    def __enter__(self):
        name = f"osb-rootless-{os.getpid()}"
        tops = ["/sys/fs/cgroup"] + glob.glob("/sys/fs/cgroup/*")
        self.made = []
        for top in tops:
            if not os.path.exists(os.path.join(top, "cgroup.procs")) or os.path.islink(top):
                continue
            if top != "/sys/fs/cgroup" and os.path.exists("/sys/fs/cgroup/cgroup.procs"):
                continue  # a cgroup of the unified hierarchy, not a hierarchy
            if os.path.exists(os.path.join(top, "cpuset.cpus")) and not os.path.exists(
                    os.path.join(top, "cgroup.controllers")):
                continue  # nobody can be in a new one before it has processors
            given = os.path.join(top, name)
            for path in (given, os.path.join(given, "start")):
                if os.path.basename(path) == "start" and os.path.exists(os.path.join(top, "cgroup.controllers")):
                    for control in ("memory", "pids", "cpu"):
                        try:
                            with open(os.path.join(top, "cgroup.subtree_control"), "w", encoding="ascii") as f:
                                f.write("+" + control)
                        except OSError:
                            pass  # not there
                os.mkdir(path)
                for inside in (path, *(os.path.join(path, n) for n in
                                       ("cgroup.procs", "tasks", "cgroup.subtree_control", "cgroup.threads"))):
                    if os.path.exists(inside):
                        os.chown(inside, UID, UID)
            self.made.append(given)
        return self

    def prefix(self):
        script = "".join(f"echo $$ > {given}/start/cgroup.procs && " for given in self.made) + 'exec "$@"'
        return ["sh", "-c", script, "sh"]

    @staticmethod
    def take_down(given):
        """By force, after a failure."""
        for base, _, files in os.walk(given, topdown=False):
            for name, word in (("freezer.state", "THAWED"), ("cgroup.freeze", "0")):
                if name in files:
                    with open(os.path.join(base, name), "w", encoding="ascii") as f:
                        f.write(word)
            procs = os.path.join(base, "cgroup.procs")
            for pid in open(procs, encoding="ascii").read().split():
                os.kill(int(pid), signal.SIGKILL)
            until(lambda procs=procs: not open(procs, encoding="ascii").read(), "what was killed to end")
            os.rmdir(base)

    def __exit__(self, kind, *_):
        for given in self.made:
            if kind is not None:
                self.take_down(given)
                continue
            start = os.path.join(given, "start")
            until(lambda start=start: not open(os.path.join(start, "cgroup.procs"), encoding="ascii").read(),
                  "the runner to be gone")
            os.rmdir(start)
            os.rmdir(given)  # fails if the runner has left something


@case
def cgroups_that_were_given_are_used():
    with Home() as home, Delegated() as cgroups:
        with home.runner(prefix=cgroups.prefix()) as r:
            assert r.features & CAN_PAUSE, r.missing
            r.create("box")
            r.pause("box")
            assert r.list()["box"].state == PAUSED
            r.kill()
            # the next one is started elsewhere and finds them all the same
            r.prefix = [word for word in r.prefix if word in DROP]
            r.start()
            assert r.list()["box"].state == PAUSED
            r.resume("box")
            assert r.shell("box", "echo on") == (0, "on\n")
            try:
                r.create("more")
                r.delete("more")
            except Refused as e:  # the way in leads over cgroups that are not the user's
                assert e.code == errno.EACCES and "must be started where it was" in e.text, e
            r.delete("box")
            r.restart()
        with home.runner(prefix=cgroups.prefix()) as r:
            if r.features & CAN_MEMORY:
                r.create("m", memory_bytes=64 << 20, pids=64 if r.features & CAN_PIDS else 0)
                assert r.run("m", "python3", "-c", "bytearray(200 << 20)")[0] == -9
                assert r.event("m", OOM).oom_kills >= 1
                # the sandbox's root is the user who owns its cgroup, and cannot change it for all that
                code, out = r.shell("m", "find /sys/fs/cgroup -name 'memory*' -writable; "
                                    "for f in $(find /sys/fs/cgroup -name 'memory.max' -o -name "
                                    "memory.limit_in_bytes); do echo 999999999 > $f; done; true")
                assert "Read-only" in out, out
                assert r.run("m", "python3", "-c", "bytearray(200 << 20)")[0] == -9


@case
def escapes():
    with Home() as home, home.runner() as r:
        r.create("box")
        for name, argv in (("E01", []), ("E02", []), ("E04", [home.canaries[1]]), ("E12", []), ("E13", []),
                           ("E16", [home.canaries[1]]), ("E21", [f"|{home.canaries[1]}"]), ("E23", []),
                           ("E24", []), ("E25", []), ("E29", []), ("E31", []), ("E33", []), ("E36", []),
                           ("E15", [home.canaries[1]]), ("E22", []), ("E26", []), ("E27", []), ("E28", []),
                           ("E30", []), ("E32", []), ("E34", []), ("E35", []), ("E38", []), ("E39", []),
                           ("E62", []), ("E64", []), ("calls-own", []), ("calls-foreign", [])):
            code, out = r.run("box", "probe", name, *argv, program=PROBE)
            assert code == 0 and "refused" in out and "WORKED" not in out, f"{name}:\n{out}"
            home.check(out)
        assert r.shell("box", "echo alive") == (0, "alive\n")


@case
def capabilities_and_filters_as_with_root():
    with Home() as home, home.runner() as r:
        item = r.create("box")
        with open(f"/proc/{item.pid}/status", encoding="ascii") as f:
            values = dict(line.rstrip("\n").split(":\t", 1) for line in f if ":\t" in line)
        kept = sum(1 << n for n in (0, 1, 3, 4, 5, 6, 7, 8, 10, 18, 31))
        for name in ("CapPrm", "CapEff", "CapBnd"):
            assert int(values[name], 16) == kept, (name, values[name])
        for name in ("CapInh", "CapAmb"):
            assert int(values[name], 16) == 0
        assert values["NoNewPrivs"] == "1" and values["Seccomp"] == "2"
        assert values["Groups"].strip() == "", values["Groups"]
        kinds = ("user", "mnt", "pid", "net", "ipc", "uts", "cgroup")
        for other in (r.process.pid, os.getpid()):
            same = [k for k in kinds if os.readlink(f"/proc/{item.pid}/ns/{k}") == os.readlink(f"/proc/{other}/ns/{k}")]
            assert not same, same


@case
def the_users_own_is_out_of_reach():
    with Home() as home:
        mine = subprocess.Popen([*DROP, "sleep", "600"], cwd=home.home,
                                env={"SECRET": home.secret, "PATH": "/usr/bin:/bin"})
        try:
            with home.server() as server:
                box = server.make(resourceLimits={})
                # his files, by every name they could have here
                for path in home.canaries + [home.home, home.state, f"/proc/1/root{home.canaries[1]}",
                                             f"/proc/1/cwd{home.canaries[1]}", "/proc/1/environ"]:
                    out = server.run(box, f"cat {path} 2>&1; ls -la {path} 2>&1; true")
                    assert "No such file" in out or "denied" in out, (path, out)
                    home.check(out)
                names = " -o ".join(f"-name {name}" for name in ("mine", "everybodys", box))
                assert server.run(box, f"find / -xdev \\( {names} \\) 2>/dev/null; true") == ""
                # his processes: neither seen nor struck
                out = server.run(box, f"ls -d /proc/{mine.pid} 2>&1; kill -9 {mine.pid} 2>&1; true")
                assert mine.poll() is None and "No such" in out, out
                server.execd(server.make(resourceLimits={}), "POST", "/command",
                             {"command": "kill -9 -1", "background": True})
                assert mine.poll() is None
                out = server.run(box, "cat /proc/[0-9]*/environ 2>/dev/null | tr '\\0' '\\n'; cat /proc/[0-9]*/cmdline")
                home.check(out)
                # PID 1, although its user owns the program it runs
                for what in ("cat /proc/1/environ", "cat /proc/1/exe", "readlink /proc/1/fd/3", "cat /proc/1/fd/4",
                             "cat /proc/1/maps", "chmod 0 /proc/1/exe", "readlink /proc/1/cwd"):
                    out = server.run(box, f"{what} 2>&1; true")
                    assert "denied" in out or out == "", (what, out[:200])
                # what tells about the host is covered, and settings are not for changing
                for path in ("/proc/kallsyms", "/proc/keys", "/proc/modules", "/proc/interrupts", "/proc/cmdline"):
                    assert server.run(box, f"cat {path} 2>/dev/null; true") == "", path
                for path in ("kernel/core_pattern", "vm/drop_caches", "kernel/hostname"):
                    out = server.run(box, f"(echo 1 > /proc/sys/{path}) 2>&1; true")
                    assert "Read-only" in out or "denied" in out, (path, out)
                assert server.run(box, "ls /proc/fs /proc/bus /proc/irq 2>/dev/null").split() == \
                    ["/proc/bus:", "/proc/fs:", "/proc/irq:"]
                # /dev: the six devices, read-only, and none to be replaced
                out = server.run(box, "ls /dev; rm -f /dev/null 2>&1; touch /dev/x 2>&1; test -c /dev/null && "
                                 "echo 1 > /dev/null && head -c 4 /dev/zero | wc -c")
                assert "Read-only file system" in out and out.endswith("4"), out
                assert set(out.split("\n")) >= {"null", "zero", "full", "random", "urandom", "tty", "pts", "shm"}, out
        finally:
            mine.kill()
            mine.wait()
        home.check()


@case
def the_program_of_all_sandboxes_cannot_be_changed():
    """Wardens of code kernels are execd too, and not closed as PID 1 is: root inside gets at their program, which it
    owns and shares with other sandboxes."""
    with Home() as home:
        with home.server() as server:
            box, other = server.make(resourceLimits={}), server.make(resourceLimits={})

            def warden():
                a = server.execd(box, "POST", "/code/context", {"language": "python"})
                assert a.status == 200, a.body
                a = server.execd(box, "POST", "/code", {"context": {"id": a.json["id"], "language": "python"},
                                                        "code": "1"})
                assert a.status == 200, a.body
                return server.run(box, "grep -lz -e --warden-o[f] /proc/[0-9]*/cmdline; true").split("/")[2:3]

            found = []
            until(lambda: found.extend(warden()) or found, "a kernel to be forked from the template")
            exe = f"/proc/{found[0]}/exe"
            code = ("import os, sys\nfor act in (lambda: os.chmod(p, 0), lambda: os.chown(p, 0, 0),"
                    " lambda: os.utime(p), lambda: os.setxattr(p, b'user.x', b'y'), lambda: open(p, 'wb'),"
                    " lambda: os.truncate(p, 0)):\n    try:\n        p = sys.argv[1]\n        act()\n"
                    "        print('WORKED')\n    except OSError as e:\n        print(e.strerror)\n")
            out = server.run(box, f'python3 -c "{code}" {exe}')
            assert set(out.split("\n")) <= {"Read-only file system", "Permission denied", "Text file busy"}, out
            assert len(out.split("\n")) == 6, out
            assert server.run(other, "echo fine") == "fine"
            server.make(resourceLimits={})


@case
def another_user_is_a_stranger():
    """Neither the socket of a sandbox nor the state is open to other users of the host."""
    with Home() as home:
        os.rmdir(home.state)
        os.chown(home.top, UID, UID)
        with home.server() as server:
            box = server.make(resourceLimits={})
            assert os.stat(home.state).st_mode & 0o777 == 0o700
            assert os.stat(os.path.join(home.state, "sock", box)).st_mode & 0o777 == 0o600
            code = subprocess.run(["setpriv", f"--reuid={UID + 1}", f"--regid={UID + 1}", "--clear-groups", "ls",
                                   os.path.join(home.state, "sock")], stderr=subprocess.DEVNULL, check=False).returncode
            assert code != 0


@case
def state_goes_where_the_user_keeps_such_things():
    for variable, below in (("HOME", ".opensandbox"), ("XDG_STATE_HOME", "opensandbox")):
        with Home() as home:
            env = {"HOME": home.home, variable: home.home, "PATH": os.environ["PATH"]}
            process = subprocess.Popen(
                [*DROP, os.path.join(home.bin, "opensandbox-server"), "--config", "/dev/null", "--port", "0",
                 "--log-level", "error"], cwd="/", env=env, stdout=subprocess.PIPE)
            try:
                assert process.stdout.readline().startswith(b"listening on "), variable
                assert os.path.exists(os.path.join(home.home, below, "server", "server.db")), variable
            finally:
                process.terminate()
                process.wait(DEADLINE_S)
                process.stdout.close()


@case
def the_demo_runs():
    with Home() as home:
        env = {"HOME": home.home, "PATH": os.environ["PATH"], "OSB_BUILD": home.bin, "TMPDIR": home.home}
        with open(os.path.join(ROOT, "scripts", "demo"), encoding="utf-8") as f:
            done = subprocess.run([*DROP, sys.executable, "-", "--once"], stdin=f, cwd="/", env=env, timeout=120,
                                  stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
        assert done.returncode == 0 and "says 2432902008176640000" in done.stdout, done.stdout
        assert "all gone again" in done.stdout and "network: it needs root" in done.stdout, done.stdout
        assert sorted(os.listdir(home.home)) == ["everybodys", "mine"], os.listdir(home.home)


main()
