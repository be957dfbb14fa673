"""Runs cells with nothing but the standard library: state in one namespace, the last expression's value,
top-level await, tracebacks that show the cell's own lines."""

import ast
import builtins
import contextlib
import inspect
import linecache
import signal
import sys
import traceback
import types

import osb_display
import osb_magics
import osb_wire

AWAIT = getattr(ast, "PyCF_ALLOW_TOP_LEVEL_AWAIT", 0)


class InputNotAvailable(RuntimeError):
    """What input() raises: there is nobody to answer."""


def no_input(prompt="", *_):
    raise InputNotAvailable("input() is not available: a cell runs without a person to answer; "
                            "pass the value in the code")


@contextlib.contextmanager
def interruptible():
    """The only place where SIGINT may strike: around a cell's own code, within the try that makes it the
    cell's result. Everywhere else it is blocked, and one that comes a moment early waits for us here."""
    signal.signal(signal.SIGINT, signal.default_int_handler)  # whatever the last cell had set
    try:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, (signal.SIGINT,))  # it may strike here already
        yield
    finally:
        block_interrupt()


def block_interrupt():
    """However many come just now."""
    while True:
        try:
            signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGINT,))
            return
        except KeyboardInterrupt:
            pass


class Shell:
    """One namespace and what runs in it."""

    def __init__(self, wire):
        self.wire = wire
        self.count = 0
        self.display = osb_display.Display(wire)
        self.main = types.ModuleType("__main__")
        self.namespace = self.main.__dict__
        self.namespace.update(__builtins__=builtins, display=self.display,
                              __osb__=osb_magics.Magics(self.namespace, self._run_source),
                              In=[""], Out={})
        sys.modules["__main__"] = self.main
        builtins.input = no_input
        self.loop = None

    def attach(self, wire):
        """Made in a template, used by the kernel that was forked from it."""
        self.wire = self.display.wire = wire

    def warm_up(self):
        """In a template: do once what the first cells of each kernel would otherwise have to load code for."""
        wire = self.wire
        self.attach(osb_wire.Nowhere())
        for code in ("display(1 + 1)\n'value'", "undefined_name", "1 +"):
            self.run(code)
        self.count = 0
        self.forget()
        self.attach(wire)

    def forget(self):
        self.namespace.update(In=[""], Out={})
        self.namespace.pop("_", None)

    def run(self, code):
        """Run a cell: frames for what it shows, its value and its failure. True if it went well."""
        self.count += 1
        self.namespace["In"].append(code)
        try:
            with interruptible():
                value = self._run_source(osb_magics.transform(code))
                if value is not None:
                    self._show(value)
                self.display.figures()
            return True
        except BaseException as error:  # whatever a cell raises is its result
            block_interrupt()  # one may have struck on the way out
            self._fail(error)
            return False

    def _show(self, value):
        self.namespace["Out"][self.count] = value
        if not isinstance(value, types.ModuleType):
            self.namespace["_"] = value
        data = osb_display.bundle(value)
        if osb_display.is_figure(value) and "matplotlib.pyplot" in sys.modules:
            sys.modules["matplotlib.pyplot"].close(value)  # or it would be shown twice
        self.display.flush()
        self.wire.send(op="result", data=data, count=self.count)

    def _run_source(self, source):
        """Execute; the value of a last expression that is not followed by a semicolon."""
        name = "<cell %d>" % self.count
        linecache.cache[name] = (len(source), None, source.splitlines(True), name)
        tree = ast.parse(source, name)
        last = None
        if tree.body and isinstance(tree.body[-1], ast.Expr) and not source.rstrip().endswith(";"):
            last = ast.Expression(tree.body.pop().value)
        if tree.body:
            self._execute(compile(tree, name, "exec", flags=AWAIT, dont_inherit=True))
        if last is None:
            return None
        return self._execute(compile(last, name, "eval", flags=AWAIT, dont_inherit=True))

    def _execute(self, compiled):
        if not compiled.co_flags & inspect.CO_COROUTINE:
            return eval(compiled, self.namespace)  # noqa: S307 - it is the user's cell
        import asyncio
        if self.loop is None:
            self.loop = asyncio.new_event_loop()
        asyncio.set_event_loop(self.loop)
        return self.loop.run_until_complete(eval(compiled, self.namespace))  # noqa: S307

    def _fail(self, error):
        kind = type(error)
        frames = error.__traceback__
        while frames is not None and frames.tb_frame.f_globals is not self.namespace:
            frames = frames.tb_next  # our own frames are of no interest
        try:
            lines = traceback.format_exception(kind, error.with_traceback(frames), frames)
        except Exception:
            lines = ["%s (and its traceback cannot be shown)" % kind.__name__]
        try:
            words = str(error)
        except Exception:
            words = "(str() of the exception failed)"
        if kind is KeyboardInterrupt and not words:
            words = "interrupted"
        text = "".join(lines)[-osb_display.MAX_TEXT:]
        self.display.flush()
        self.wire.send(op="error", ename=kind.__name__, evalue=words[:65536],
                       traceback=text.rstrip("\n").split("\n")[-2000:])
