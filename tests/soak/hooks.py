"""The other end of hooks.c: how often which calls fail, or which one, in which program."""

import mmap
import os
import struct

CONTROL_FD, MAGIC = 1000, 0x6f736266
PROGRAMS = {"server": "opensandbox-server", "runner": "opensandbox-runner", "execd": "execd"}
CLASSES = ("memory", "files")
REPORT_SIZE = 8192
HEAD, CELL = struct.Struct("=II"), struct.Struct("=III")  # magic, seed; one_in, nth, failed


class Hooks:
    """A control block, at the descriptor that every program looks for it at."""

    def __init__(self, build, seed):
        for program in PROGRAMS.values():
            with open(os.path.join(build, program), "rb") as f:
                if b"__wrap_malloc" not in f.read():
                    raise RuntimeError(f"{program} in {build} has no fault hooks: scripts/build asan")
        self.report_at = HEAD.size + CELL.size * len(PROGRAMS) * len(CLASSES) + 4
        size = self.report_at + REPORT_SIZE
        fd = os.memfd_create("fault-hooks")
        os.ftruncate(fd, size)
        os.dup2(fd, CONTROL_FD)
        os.close(fd)
        self.block = mmap.mmap(CONTROL_FD, size)
        HEAD.pack_into(self.block, 0, MAGIC, seed)

    def _at(self, program, what):
        return HEAD.size + CELL.size * (list(PROGRAMS).index(program) * len(CLASSES) + CLASSES.index(what))

    def fail(self, program, what, one_in):
        """Of so many calls one fails from now on; 0: none does."""
        struct.pack_into("=I", self.block, self._at(program, what), one_in)

    def fail_nth(self, program, what, nth):
        """That one of the calls to come fails; 0: none does."""
        struct.pack_into("=I", self.block, self._at(program, what) + 4, nth)

    def failed(self, program, what):
        """How many calls have."""
        return CELL.unpack_from(self.block, self._at(program, what))[2]

    def report(self):
        """What the sanitizer said of an execd, if anything."""
        return self.block[self.report_at:].split(b"\0")[0].decode("utf-8", "replace")
