"""Talks to a real runner as the server does: the messages of src/sandbox/msg.h."""

import array
import ctypes as C
import errno
import os
import select
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time

BUILD = os.path.abspath(os.environ.get("OSB_BUILD", "build"))
RUNNER = os.path.join(BUILD, "opensandbox-runner")
AGENT = os.path.join(BUILD, "tests", "runtime", "box-agent")
DEADLINE_S = int(os.environ.get("OSB_DEADLINE_S", "30"))

HELLO, CREATE, DELETE, PAUSE, RESUME, LIST, STAT, DIAL, SWEEP, ITEM, EVENT = range(1, 12)
HOST, LAYERS, DIR = 1, 2, 3
FROM_STORE, FROM_HOST = 1, 2
WITH_NETWORK, WITH_LOG, READONLY = 1, 2, 4
RUNNING, PAUSED, DEAD = 1, 2, 3
EXITED, OOM = 1, 2
CAN_NETWORK, CAN_IPV6, CAN_MEMORY, CAN_CPU, CAN_PIDS, CAN_IO, CAN_DISK, CAN_PAUSE, CAN_SWAP, ROOTLESS = (
    1 << i for i in range(10))


def fields(*names):
    """A ctypes structure from "name type" texts."""
    kinds = {"u16": C.c_uint16, "u32": C.c_uint32, "i32": C.c_int32, "u64": C.c_uint64}
    result = []
    for text in names:
        name, kind = text.split()
        result.append((name, C.c_char * int(kind[1:]) if kind[0] == "s" else kinds[kind]))
    return result


class Head(C.Structure):
    _fields_ = fields("type u32", "size u32", "cookie u64")


class Err(C.Structure):
    _fields_ = fields("code i32", "msg s252")


class Named(C.Structure):
    _fields_ = [("head", Head)] + fields("id s64")


class Plain(C.Structure):
    _fields_ = [("head", Head)]


class Reply(C.Structure):
    _fields_ = [("head", Head), ("err", Err)]


class Hello(C.Structure):
    _fields_ = [("head", Head)] + fields("version u32", "reserved u32")


class HelloReply(C.Structure):
    _fields_ = [("head", Head), ("err", Err)] + fields(
        "version u32", "features u32", "tag s16", "boot_id s40", "missing s512")


class Volume(C.Structure):
    _fields_ = fields("source u32", "read_only u32", "size_bytes u64", "size_exact u32", "reserved u32", "origin s512",
                      "target s512")


class Limits(C.Structure):
    _fields_ = fields("memory_bytes u64", "swap_bytes u64", "disk_bytes u64", "io_read_bps u64",
                      "io_write_bps u64", "cpu_milli u32", "pids u32", "nofile u32", "reserved u32")


class Create(C.Structure):
    _fields_ = [("head", Head)] + fields(
        "id s64", "hostname s64", "flags u32", "rootfs u32", "n_layers u32", "n_volumes u32") + [
        ("limits", Limits), ("dir", C.c_char * 512), ("layers", (C.c_char * 80) * 128),
        ("volumes", Volume * 16)]


class Item(C.Structure):
    _fields_ = [("head", Head), ("err", Err)] + fields(
        "id s64", "state u32", "pid i32", "status i32", "network u32", "started_ms u64",
        "oom_kills u64", "uid_base u32", "ifname s16", "ip4 s16", "ip6 s48", "reserved u32")


class Stat(C.Structure):
    _fields_ = [("head", Head), ("err", Err)] + fields(
        "cpu_usec u64", "memory_bytes u64", "memory_peak_bytes u64", "memory_limit_bytes u64",
        "disk_bytes u64", "disk_limit_bytes u64", "oom_kills u64", "pids u32", "pids_limit u32")


class Dial(C.Structure):
    _fields_ = [("head", Head)] + fields("id s64", "port u16", "family u16", "reserved u32")


class SweepReply(C.Structure):
    _fields_ = [("head", Head), ("err", Err)] + fields("swept u32", "left u32")


class Event(C.Structure):
    _fields_ = [("head", Head)] + fields("id s64", "kind u32", "status i32", "oom_kills u64",
                                         "at_ms u64")


ANSWERS = {HELLO: HelloReply, CREATE: Item, DELETE: Reply, PAUSE: Reply, RESUME: Reply, LIST: Reply,
           STAT: Stat, DIAL: Reply, SWEEP: SweepReply, ITEM: Item, EVENT: Event}


class Refused(Exception):
    def __init__(self, err):
        super().__init__(f"{errno.errorcode.get(err.code, err.code)}: {err.msg.decode()}")
        self.code, self.text = err.code, err.msg.decode()


def sealed(data, name="sealed"):
    fd = os.memfd_create(name, os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view):]
    fcntl_seal(fd)
    return fd


def fcntl_seal(fd):
    import fcntl
    fcntl.fcntl(fd, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SEAL | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW |
                fcntl.F_SEAL_WRITE)


def is_broom(pid):
    try:
        with open(f"/proc/{pid}/comm", encoding="ascii") as f, open(f"/proc/{pid}/stat", encoding="ascii") as g:
            return f.read().startswith("opensandbox-run") and int(g.read().rsplit(")", 1)[1].split()[16]) == 19
    except OSError:
        return False


class Runner:
    """A runner with a state directory of its own, and the server's end of its socket."""

    def __init__(self, *options, state=None, prefix=(), program=AGENT):
        self.own_state = state is None
        self.state = state or tempfile.mkdtemp(prefix="osb-test-", dir="/var/tmp")
        self.options, self.prefix = list(options), list(prefix)
        with open(program, "rb") as f:
            self.execd = sealed(f.read(), "execd")
        self.sock = self.process = None
        self.start()

    def brooms(self):
        """Children that sweep: they have the runner's own name."""
        try:
            with open(f"/proc/{self.process.pid}/task/{self.process.pid}/children", encoding="ascii") as f:
                pids = f.read().split()
        except (AttributeError, OSError):
            return []
        return [pid for pid in pids if is_broom(pid)]

    def pair(self):
        return socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)

    def start(self):
        self.sock, theirs = self.pair()
        self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 20)
        level = ["--log-level", os.environ.get("OSB_LOG", "error")]
        self.process = subprocess.Popen(
            self.prefix + [RUNNER, "--state-dir", self.state, "--fd", str(theirs.fileno())] + level +
            self.options, pass_fds=[theirs.fileno()])
        theirs.close()
        self.cookie, self.events, self.answers = 0, [], {}
        hello = self.ask(Hello(version=1), HELLO)
        self.features, self.tag = hello.features, hello.tag.decode()
        self.missing = hello.missing.decode()

    def kill(self, how=signal.SIGKILL):
        """End the runner as a crash would; sandboxes live on."""
        self.process.send_signal(how)
        self.process.wait(DEADLINE_S)
        self.sock.close()

    def restart(self):
        self.kill()
        self.start()

    # messages

    def send(self, message, kind, fds=()):
        self.cookie += 1
        message.head = Head(kind, C.sizeof(message), self.cookie)
        socket.send_fds(self.sock, [bytes(message)], list(fds))
        return self.cookie

    def receive(self, deadline=None):
        left = max(0, (deadline or time.monotonic() + DEADLINE_S) - time.monotonic())
        if not select.select([self.sock], [], [], left)[0]:
            raise TimeoutError("no word from the runner")
        data, fds, _, _ = socket.recv_fds(self.sock, 65536, 4)
        if not data:
            raise ConnectionError("the runner ended the connection")
        kind = struct.unpack_from("I", data)[0]
        message = ANSWERS[kind].from_buffer_copy(data)
        message.fds = fds
        return kind, message

    def wait(self, cookie, kind):
        """The final answer to a request; items and events on the way are kept."""
        deadline = time.monotonic() + DEADLINE_S
        while (cookie, kind) not in self.answers:
            got, message = self.receive(deadline)
            if got == EVENT:
                self.events.append(message)
            elif got == ITEM:
                self.answers.setdefault((message.head.cookie, ITEM), []).append(message)
            else:
                self.answers[(message.head.cookie, got)] = message
        message = self.answers.pop((cookie, kind))
        if message.err.code:
            raise Refused(message.err)
        return message

    def ask(self, message, kind, fds=()):
        return self.wait(self.send(message, kind, fds), kind)

    def event(self, box, kind):
        deadline = time.monotonic() + DEADLINE_S
        while True:
            for e in self.events:
                if e.id.decode() == box and e.kind == kind:
                    self.events.remove(e)
                    return e
            got, message = self.receive(deadline)
            if got == EVENT:
                self.events.append(message)
            else:
                self.answers[(message.head.cookie, got)] = message

    # requests

    def begin(self, box, network=False, rootfs=HOST, directory="", layers=(), volumes=(), log=None,
              spec=b"", readonly=False, hostname=None, **limits):
        m = Create(id=box.encode(), hostname=(hostname or box).encode(), rootfs=rootfs,
                   n_layers=len(layers), n_volumes=len(volumes), limits=Limits(**limits),
                   dir=directory.encode())
        m.flags = (WITH_NETWORK if network else 0) | (READONLY if readonly else 0) | (
            WITH_LOG if log is not None else 0)
        for i, name in enumerate(layers):
            m.layers[i].value = name.encode()
        for i, (source, origin, target, read_only, *size) in enumerate(volumes):
            m.volumes[i] = Volume(source, read_only, *(size or [0]), bool(size), 0, origin.encode(), target.encode())
        spec_fd = sealed(spec, "spec")
        try:
            return self.send(m, CREATE, [self.execd, spec_fd] + ([log] if log is not None else []))
        finally:
            os.close(spec_fd)

    def create(self, box, **options):
        return self.wait(self.begin(box, **options), CREATE)

    def delete(self, box):
        return self.ask(Named(id=box.encode()), DELETE)

    def pause(self, box):
        return self.ask(Named(id=box.encode()), PAUSE)

    def resume(self, box):
        return self.ask(Named(id=box.encode()), RESUME)

    def stat(self, box):
        return self.ask(Named(id=box.encode()), STAT)

    def list(self):
        cookie = self.send(Plain(), LIST)
        self.wait(cookie, LIST)
        return {i.id.decode(): i for i in self.answers.pop((cookie, ITEM), [])}

    def sweep(self):
        return self.ask(Plain(), SWEEP)

    def dial(self, box, port, family=1):
        m = self.ask(Dial(id=box.encode(), port=port, family=family), DIAL)
        return socket.socket(fileno=m.fds[0])

    # inside

    def connect(self, box):
        s = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        directory = os.open(os.path.join(self.state, "sock"), os.O_PATH)
        try:
            s.connect(f"/proc/self/fd/{directory}/{box}")
        finally:
            os.close(directory)
        return s

    def start_in(self, box, *argv, uid=0, program=None):
        """(connection, reading end of its output) of a command in the sandbox."""
        reading, writing = os.pipe()
        fds = [writing]
        if program:
            fds.append(os.open(program, os.O_RDONLY))
        s = self.connect(box)
        socket.send_fds(s, ["\0".join([str(uid), *argv, ""]).encode()], fds)
        for fd in fds:
            os.close(fd)
        return s, reading

    def run(self, box, *argv, uid=0, program=None):
        """(exit code or negative signal, output)"""
        s, reading = self.start_in(box, *argv, uid=uid, program=program)
        output = b""
        deadline = time.monotonic() + DEADLINE_S
        while True:
            if not select.select([reading], [], [], max(0, deadline - time.monotonic()))[0]:
                raise TimeoutError(f"{argv} does not end: {output[-300:]}")
            more = os.read(reading, 65536)
            if not more:
                break
            output += more
        os.close(reading)
        s.settimeout(max(0.1, deadline - time.monotonic()))
        status = s.recv(4)
        s.close()
        if len(status) != 4:
            raise ConnectionError(f"{argv}: no status")
        return os.waitstatus_to_exitcode(struct.unpack("i", status)[0]), output.decode(
            "utf-8", "replace")

    def shell(self, box, script, uid=0):
        return self.run(box, "sh", "-c", script, uid=uid)

    # afterwards

    def close(self):
        """Delete every sandbox, also after a test that left the runner dead, and end the runner."""
        try:
            alive = self.process.poll() is None
            if not alive or not self._empty():
                if alive:
                    self.kill()
                self.start()
                self._empty()
            self.process.send_signal(signal.SIGTERM)
            self.process.wait(DEADLINE_S)
        finally:
            self.process.kill()
            self.sock.close()
            os.close(self.execd)
        if self.own_state:
            shutil.rmtree(self.state, ignore_errors=True)

    def _empty(self):
        try:
            for box in list(self.list()):
                self.delete(box)
            return True
        except (OSError, Refused):
            return False

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


# what a host shows of an instance

def cgroup_dirs(tag):
    found = []
    for base, dirs, _ in os.walk("/sys/fs/cgroup"):
        for d in dirs:
            if base.endswith(f"opensandbox-{tag}"):
                found.append(os.path.join(base, d))
        depth = base.count("/") - "/sys/fs/cgroup".count("/")
        if depth > 2:
            dirs.clear()
    return found


def links():
    """Of our network namespace; /sys shows those of the one it was mounted in."""
    return [name for _, name in socket.if_nameindex()]


def census(runner):
    """Everything that sandboxes may leave behind; empty lists are what we want to see. Links are not told: a
    runner keeps some ready. nothing_is_left_at_the_end looks at them."""
    def names(*parts):
        path = os.path.join(runner.state, *parts)
        return sorted(os.listdir(path)) if os.path.isdir(path) else []

    # what was deleted is on its way out by another process, a child of the runner
    deadline = time.monotonic() + DEADLINE_S
    while (names("trash") or runner.brooms()) and time.monotonic() < deadline:
        time.sleep(0.001)  # its end is its parent's to hear of
    mounts = [line for line in open("/proc/self/mountinfo") if runner.state in line]
    table = os.path.join(runner.state, "table")
    rows = 0
    if os.path.exists(table):
        with open(table, "rb") as f:
            data = f.read()
        rows = sum(any(data[i:i + 512]) for i in range(0, len(data), 512))
    return {"boxes": names("sandboxes"), "sockets": names("sock"), "trash": names("trash"),
            "cgroups": cgroup_dirs(runner.tag), "mounts": mounts, "rows": rows}


# cases

_cases = []


def case(fn):
    _cases.append(fn)
    return fn


def skip(why):
    print(f"skip: {why}")
    sys.exit(77)


def need_root():
    """Also leave the machine's network: runners under test filter and route in one of ours."""
    if os.geteuid() != 0:
        skip("needs root")
    if C.CDLL(None, use_errno=True).unshare(0x40000000) != 0:
        skip("cannot make a network namespace: " + os.strerror(C.get_errno()))
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)


class Skip(Exception):
    pass


def main():
    failed = 0
    only = sys.argv[1:]
    for fn in _cases:
        if only and fn.__name__ not in only:
            continue
        try:
            fn()
            print(f"ok {fn.__name__}", flush=True)
        except Skip as e:
            print(f"skip {fn.__name__} {e}", flush=True)
        except Exception as e:  # noqa: BLE001
            import traceback
            traceback.print_exc()
            print(f"not ok {fn.__name__} # {type(e).__name__}: {e}", flush=True)
            failed = 1
    sys.exit(failed)
