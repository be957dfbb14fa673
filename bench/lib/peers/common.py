"""What the peers have in common: programs run quietly, and figures that follow from what a peer can do."""

import collections
import contextlib
import glob
import os
import shutil
import signal
import subprocess
import tarfile
import tempfile
import time

import osb

LIMIT = 120
CGROUP = f"/osb-peers-{os.getpid()}"  # above those of their sandboxes
BLOCK = b"\0" * (1 << 20)

# How a port inside a sandbox is reached: an address, what comes before the path, headers to send along.
Way = collections.namedtuple("Way", "address prefix headers")


TRUE = ("true",)


def expect(want, said):
    if said != want:
        raise RuntimeError(f"{said[-300:]!r} instead of {want!r}")


class Peer:
    """Attempts raise when they fail. Where a peer can, it has

        once(argv)                what a command that gets a sandbox of its own prints
        create(), delete(it)      a sandbox that waits
        run(it, argv)             what a command in it prints
        put(it, path, size), get(it, path, size)    MB/s of a file of zeros, into it and out of it
        open(ports)               port -> Way of a new sandbox in which execd serves 44772
        processes(), daemons()    those of its sandboxes, and those that are there without any (name -> pid)

    and `lacks` has the reason for each of the others."""

    name = None
    lacks = {}
    date = ("date", "+%s%N")

    def first_result(self, argv=TRUE, want=""):
        return osb.timed(lambda: expect(want, self.once(argv)))

    def execute(self, sandbox, argv=TRUE, want=""):
        return osb.timed(lambda: expect(want, self.run(sandbox, argv)))

    def stream_end(self, sandbox):
        """Milliseconds from the last thing a command does to the end of its stream, as its client sees it."""
        said = self.run(sandbox, self.date)
        return (time.time_ns() - int(said)) / 1e6

    def create_and_delete(self):
        return osb.timed(lambda: self.delete(self.create()))

    def daemons(self):
        return {}

    def stop(self):
        pass


class Served(Peer):
    """A server's sandboxes: of each its id, and the execd inside, which does the rest."""

    date = ("exec", "date", "+%s%N")

    def first_result(self, argv=TRUE, want=""):
        """The delete is not counted."""
        begin = osb.clock()
        sandbox = self.create()
        expect(want, self.run(sandbox, argv))
        took = osb.clock() - begin
        self.delete(sandbox)
        return took

    def once(self, argv):
        sandbox = self.create()
        said = self.run(sandbox, argv)
        self.delete(sandbox)
        return said

    def run(self, sandbox, argv):
        return sandbox[1].run(argv)

    def put(self, sandbox, path, size):
        return sandbox[1].put(path, size)

    def get(self, sandbox, path, size):
        return sandbox[1].get(path, size)


def quiet(argv, **kwargs):
    """What it prints; warnings are not of interest, unless it fails."""
    done = subprocess.run(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                          timeout=LIMIT, check=False, **kwargs)
    if done.returncode != 0:
        raise RuntimeError(f"{argv[0]}: {(done.stdout + done.stderr).strip()[-300:]}")
    return done.stdout.strip()


def tidy(argv, **kwargs):
    """On the way out: what can be done is done, and there is nothing to say."""
    subprocess.run(argv, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False,
                   timeout=LIMIT, **kwargs)


def remove_cgroups():
    """They leave the one above."""
    for top in ("/sys/fs/cgroup", *glob.glob("/sys/fs/cgroup/*/")):
        for path, _, _ in os.walk(top.rstrip("/") + CGROUP, topdown=False):
            with contextlib.suppress(OSError):
                os.rmdir(path)


def kill_all_of(directory):
    """Those that name it in their arguments: gVisor leaves processes of a start that failed."""
    for path in glob.glob("/proc/[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            with open(path, "rb") as arguments:
                if directory.encode() in arguments.read():
                    os.kill(int(path.split("/")[2]), signal.SIGKILL)


def end(proc):
    proc.terminate()
    try:
        proc.wait(30)
    except subprocess.TimeoutExpired:
        proc.kill()
        proc.wait()


def wait_for(condition, what, seconds=60, pause=0.01):
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            raise RuntimeError(f"not within {seconds} s: {what}")
        time.sleep(pause)


def need(*programs):
    for program in programs:
        if not shutil.which(program):
            raise RuntimeError(f"{program} is not installed (make bench PEERS=1 installs the peers)")


def _rate(size, start, proc, errors):
    code = proc.wait(LIMIT)
    took = time.perf_counter() - start
    if code != 0:
        errors.seek(0)
        raise RuntimeError(f"{proc.args[0]}: {errors.read().decode(errors='replace').strip()[-300:]}")
    return size / took / 1e6


def pour(argv, name, size, **kwargs):
    """MB/s into a program that unpacks a tar archive: one file of zeros."""
    info = tarfile.TarInfo(name)
    info.size = size
    with tempfile.TemporaryFile() as errors:
        start = time.perf_counter()
        proc = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=errors, stderr=errors, **kwargs)
        try:
            with proc.stdin as sink:
                sink.write(info.tobuf())
                for _ in range(size // len(BLOCK)):
                    sink.write(BLOCK)
                sink.write(b"\0" * 1024)
        except BrokenPipeError:
            pass  # its own words say why
        return _rate(size, start, proc, errors)


def drain(argv, size, **kwargs):
    """MB/s out of a program that writes a tar archive with a file of that size."""
    with tempfile.TemporaryFile() as errors:
        start, sink, got = time.perf_counter(), bytearray(len(BLOCK)), 0
        with subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=errors, bufsize=0,
                              **kwargs) as proc:
            while (n := proc.stdout.readinto(sink)) > 0:
                got += n
            rate = _rate(size, start, proc, errors)
    if got < size:
        raise RuntimeError(f"{argv[0]}: {got} bytes of {size}")
    return rate
