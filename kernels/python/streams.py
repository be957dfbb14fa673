"""sys.stdout and sys.stderr of cells: what is printed leaves at once, and they survive what cells do to them."""

import builtins
import io
import os
import sys


class Stream(io.TextIOWrapper):
    """Text straight to a descriptor, without any buffer in between."""

    mode = "w"

    def __init__(self, fd):
        super().__init__(open(fd, "wb", buffering=0, closefd=False), encoding="utf-8",
                         errors="backslashreplace", write_through=True)


_print = builtins.print


def print_at_once(*values, sep=" ", end="\n", file=None, flush=False):
    """print() that writes a line in one piece, so that it arrives as one."""
    if type(file) is not Stream and (file is not None or type(sys.stdout) is not Stream):
        return _print(*values, sep=sep, end=end, file=file, flush=flush)
    sep, end = " " if sep is None else sep, "\n" if end is None else end
    if not isinstance(sep, str) or not isinstance(end, str):
        return _print(*values, sep=sep, end=end, file=file)  # its words about it
    (file or sys.stdout).write(sep.join([str(value) for value in values]) + end)
    return None


print_at_once.__name__ = print_at_once.__qualname__ = "print"
print_at_once.__doc__ = _print.__doc__
print_at_once.__module__ = "builtins"


def open_streams():
    for fd, name in ((1, "stdout"), (2, "stderr")):
        stream = Stream(fd)
        setattr(sys, name, stream)
        setattr(sys, "__%s__" % name, stream)
    builtins.print = print_at_once


class Keeper:
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
