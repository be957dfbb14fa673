"""The Python kernel's main program: runs cells, or, as a template, forks kernels that do.

Started with the control socket as descriptor 3. With OSB_KERNEL_TEMPLATE in the environment (a comma-separated
list of modules to import beforehand, possibly empty) it is a template.
"""

import os
import signal
import sys

import osb_ipython
import osb_shell
import osb_wire


def open_streams():
    """Text streams on 1 and 2 that pass everything on at once, and copies to repair them from."""
    for fd, name in ((1, "stdout"), (2, "stderr")):
        raw = open(fd, "wb", buffering=0, closefd=False)
        import io
        stream = io.TextIOWrapper(raw, encoding="utf-8", errors="backslashreplace",
                                  write_through=True)
        stream.mode = "w"
        setattr(sys, name, stream)
        setattr(sys, "__%s__" % name, stream)


class Streams:
    """A cell may close or redirect 1 and 2; the next one starts with the real ones."""

    def __init__(self):
        import fcntl
        self.kept = {fd: fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 210) for fd in (1, 2)}
        self.stdout, self.stderr = sys.stdout, sys.stderr

    def repair(self):
        for fd, kept in self.kept.items():
            try:
                if os.path.sameopenfile(fd, kept):
                    continue
            except OSError:
                pass
            try:
                os.dup2(kept, fd)
            except OSError:
                pass
        sys.stdout, sys.stderr = self.stdout, self.stderr
        if self.stdout.closed or self.stderr.closed:
            open_streams()
            self.stdout, self.stderr = sys.stdout, sys.stderr


def new_shell(wire):
    if osb_ipython.available():
        try:
            return osb_ipython.IPythonShell(wire)
        except Exception:  # an IPython too old or too new for us: plain Python is better than nothing
            pass
    return osb_shell.Shell(wire)


VERSION = "%d.%d.%d" % sys.version_info[:3]


def serve(wire, shell):
    """Cells until execd closes the socket."""
    shell.attach(wire)
    streams = Streams()
    shell.display.install_backend()
    sys.path.insert(0, "")
    wire.send(op="ready", language="python", version=VERSION)
    main_pid = os.getpid()
    while True:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # between cells there is nothing to interrupt
        frame = wire.receive()
        if frame is None or frame.get("op") == "exit":
            break
        if frame.get("op") != "run":
            continue
        streams.repair()
        try:
            # whatever handler the last cell has left: an interrupt must work
            signal.signal(signal.SIGINT, signal.default_int_handler)
            shell.run(frame["code"])
        except KeyboardInterrupt:  # it came a moment too late
            pass
        if os.getpid() != main_pid:
            os._exit(0)  # a child forked by the cell ends with it
        shell.display.flush()
        wire.send(op="done", count=shell.count)
    sys.stdout.flush()
    os._exit(0)  # no waiting for threads that a cell has left


def become_kernel(fds, cwd):
    """In the forked child: take the place of a freshly started kernel."""
    os.setsid()
    control, out, err = fds
    os.dup2(out, 1)
    os.dup2(err, 2)
    for fd in (out, err):
        if fd > 2:
            os.close(fd)
    if cwd:
        try:
            os.chdir(cwd)
        except OSError:
            pass
    import random
    random.seed()
    numpy_random = sys.modules.get("numpy.random")
    if numpy_random is not None:
        numpy_random.seed(None)
    open_streams()
    return osb_wire.Wire(control)


def template(wire):
    """Import what is slow, then fork a kernel whenever execd asks for one."""
    import gc
    import asyncio  # noqa: F401 - cells that await should not pay for it
    import linecache  # noqa: F401
    import subprocess  # noqa: F401
    import traceback  # noqa: F401
    for name in filter(None, os.environ.pop("OSB_KERNEL_TEMPLATE", "").split(",")):
        try:
            __import__(name.strip())
        except Exception as error:
            print("preloading %s: %s" % (name, error), file=sys.stderr, flush=True)
    shell = new_shell(wire)
    gc.collect()
    gc.freeze()  # shared pages stay shared: the collector does not write to frozen objects
    wire.send(op="ready", language="python", version=VERSION)
    while True:
        frame, fds = wire.receive_with_fds()
        if frame is None:
            os._exit(0)
        if frame.get("op") != "spawn" or len(fds) != 3:
            for fd in fds:
                os.close(fd)
            continue
        reader, writer = os.pipe()
        middle = os.fork()
        if middle == 0:
            # forked twice, so that execd (a subreaper) becomes the parent and learns its end
            os.close(reader)
            kernel = os.fork()
            if kernel != 0:
                os.write(writer, b"%d" % kernel)
                os._exit(0)
            os.close(writer)
            wire.sock.close()
            kernel_wire = become_kernel(fds, frame.get("cwd"))
            serve(kernel_wire, shell)
        os.close(writer)
        for fd in fds:
            os.close(fd)
        os.waitpid(middle, 0)
        pid = int(os.read(reader, 32) or b"0")
        os.close(reader)
        wire.send(op="spawned", pid=pid)


def main():
    open_streams()
    wire = osb_wire.Wire(osb_wire.CONTROL_FD)
    if "OSB_KERNEL_TEMPLATE" in os.environ:
        template(wire)
    else:
        serve(wire, new_shell(wire))


if __name__ == "__main__":
    main()
