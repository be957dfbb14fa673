"""The Python kernel's main program: runs cells, or, as a template, forks kernels that do.

Started with the control socket as descriptor 3. With OSB_KERNEL_TEMPLATE in the environment (a comma-separated
list of modules to import beforehand, possibly empty) it is a template.
"""

import os
import signal
import sys

import osb_ipython
import osb_jupyter
import osb_shell
import osb_sql
import osb_streams
import osb_wire

VERSION = "%d.%d.%d" % sys.version_info[:3]


def new_shell(wire):
    if osb_ipython.available():
        try:
            return osb_ipython.IPythonShell(wire)
        except Exception:  # an IPython too old or too new for us: plain Python is better than nothing
            pass
    return osb_shell.Shell(wire)


def run_cell(wire, shell, streams, code):
    """One cell; whatever the last one has left of handlers and streams, an interrupt and output must work."""
    streams.repair()
    # A signal that is here already was for the cell before, or for this one; in that case its frame is
    # here as well, because execd sends that first.
    signal.sigtimedwait((signal.SIGINT,), 0)
    shell.run("raise KeyboardInterrupt" if wire.interrupted() else code)


def serve(wire, shell):
    """Cells until execd closes the socket."""
    signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGINT,))
    shell.attach(wire)
    streams = osb_streams.Keeper()
    shell.display.install_backend()
    if "" not in sys.path:
        sys.path.insert(0, "")
    wire.send(op="ready", language=os.environ.get("OSB_KERNEL", "python"), version=VERSION)
    main_pid = os.getpid()
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a template ignores it
    while True:
        frame = wire.receive()
        if frame is None or frame.get("op") == "exit":
            break
        if frame.get("op") != "run":
            continue
        run_cell(wire, shell, streams, frame["code"])
        if os.getpid() != main_pid:
            os._exit(0)  # a child forked by the cell ends with it
        shell.display.flush()
        wire.send(op="done", count=shell.count)
    os._exit(0)  # no waiting for threads that a cell has left


def become_kernel(fds, frame):
    """In the forked child: take the place of a freshly started kernel."""
    os.setsid()
    control, out, err = fds
    os.dup2(out, 1)
    os.dup2(err, 2)
    for fd in (out, err):
        if fd > 2:
            os.close(fd)
    try:
        os.chdir(frame.get("cwd") or "/")
    except OSError as error:
        print("cannot go to %s: %s" % (frame.get("cwd"), error), file=sys.stderr)
    os.environ["OSB_KERNEL"] = frame.get("language", "python")
    import random
    random.seed()
    numpy_random = sys.modules.get("numpy.random")
    if numpy_random is not None:
        numpy_random.seed(None)
    osb_streams.open_streams()
    return osb_wire.Wire(control)


def fork_kernel(wire, shell, frame, fds):
    """template -> helper -> warden -> kernel. The helper leaves at once, so that the warden becomes a child of
    execd; the warden becomes execd's own program, which reports how the kernel ends (through `report`)."""
    *kernel_fds, report, program = fds
    helper = os.fork()
    if helper != 0:
        os.waitpid(helper, 0)
        return
    try:
        if os.fork() != 0:
            os._exit(0)
        os.setsid()  # the template's end is not the warden's
        kernel = os.fork()
        if kernel != 0:
            os.set_inheritable(report, True)
            os.execve(program, ["execd", "--warden-of", str(kernel), str(report)], {})
        os.close(report)
        os.close(program)
        wire.sock.close()
        language = frame.get("language")
        kernel_wire = become_kernel(kernel_fds, frame)
        serve(kernel_wire, osb_sql.SqlShell(kernel_wire) if language == "sql" else shell)
    finally:  # never back into the template's loop
        os._exit(1)


def template(wire):
    """Import what is slow, then fork a kernel whenever execd asks for one."""
    import gc
    for name in ("asyncio", "linecache", "subprocess", "traceback"):
        __import__(name)  # cells that need them should not pay for it
    failed = []
    for name in filter(None, os.environ.pop("OSB_KERNEL_TEMPLATE", "").split(",")):
        try:
            __import__(name.strip())
        except Exception as error:
            failed.append("%s: %s" % (name, error))
    shell = new_shell(wire)
    shell.warm_up()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    gc.collect()
    gc.freeze()  # shared pages stay shared: the collector does not write to frozen objects
    ready = {"op": "ready", "language": "python", "version": VERSION}
    if failed:
        ready["failed"] = "; ".join(failed)[:4000]
    wire.send(**ready)
    while True:
        frame, fds = wire.receive_with_fds()
        if frame is None:
            os._exit(0)
        if frame.get("op") == "spawn" and len(fds) == 5:
            fork_kernel(wire, shell, frame, fds)
        for fd in fds:
            os.close(fd)


def main():
    osb_streams.open_streams()
    wire = osb_wire.Wire(osb_wire.CONTROL_FD)
    if "OSB_KERNEL_TEMPLATE" in os.environ:
        template(wire)
    elif os.environ.get("OSB_KERNEL") == "sql":
        serve(wire, osb_sql.SqlShell(wire))
    elif os.environ.get("OSB_KERNEL", "python") != "python":
        osb_jupyter.serve(wire, os.environ["OSB_KERNEL"])
    else:
        serve(wire, new_shell(wire))


if __name__ == "__main__":
    main()
