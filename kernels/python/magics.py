"""The few things beyond Python that people type into cells: !command, %pip, %cd, %env, %time, %%bash ...

Where IPython is in the image it does all this and more; this is for images with nothing but Python.
"""

import ast
import os
import re
import shlex
import subprocess
import sys
import time

_ASSIGN = re.compile(r"^(\s*)([A-Za-z_][\w, ]*)\s*=\s*!(.*)$")
_SHELL = re.compile(r"^(\s*)!(.*)$")
_LINE = re.compile(r"^(\s*)%([A-Za-z_]\w*)[ \t]*(.*)$")
_CELL = re.compile(r"^%%([A-Za-z_]\w*)[ \t]*(.*)$")


def _shell():
    return "/bin/bash" if os.access("/bin/bash", os.X_OK) else "/bin/sh"


class Magics:
    """Called by name from the code that transform() makes."""

    def __init__(self, namespace, run_cell):
        self.namespace, self.run_cell = namespace, run_cell

    def _expand(self, command):
        """{expression} and $name in shell lines come from the cell's own variables."""
        def braces(match):
            try:
                return str(eval(match.group(1), self.namespace))  # noqa: S307 - it is the user's cell
            except Exception:
                return match.group(0)

        def dollar(match):
            name = match.group(1)
            return str(self.namespace[name]) if name in self.namespace else match.group(0)

        return re.sub(r"\$([A-Za-z_]\w*)", dollar, re.sub(r"\{([^{}]+)\}", braces, command))

    def system(self, command):
        sys.stdout.flush()
        sys.stderr.flush()
        self.namespace["_exit_code"] = subprocess.call([_shell(), "-c", self._expand(command)])

    def getoutput(self, command):
        done = subprocess.run([_shell(), "-c", self._expand(command)], stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, check=False)
        self.namespace["_exit_code"] = done.returncode
        return done.stdout.decode("utf-8", "replace").splitlines()

    def line(self, name, rest):
        method = getattr(self, "line_" + name, None)
        if method is None:
            raise NameError("line magic %%%s is not known without IPython" % name)
        return method(rest)

    def cell(self, name, rest, body):
        method = getattr(self, "cell_" + name, None)
        if method is None:
            raise NameError("cell magic %%%%%s is not known without IPython" % name)
        return method(rest, body)

    def line_pip(self, rest):
        sys.stdout.flush()
        code = subprocess.call([sys.executable, "-m", "pip", "--disable-pip-version-check",
                                *shlex.split(self._expand(rest))])
        import importlib
        importlib.invalidate_caches()
        if code != 0:
            raise RuntimeError("pip ended with status %d" % code)

    def line_cd(self, rest):
        os.chdir(os.path.expanduser(self._expand(rest.strip()) or "~"))
        print(os.getcwd())

    def line_pwd(self, _):
        return os.getcwd()

    def line_env(self, rest):
        if not rest.strip():
            return dict(os.environ)
        name, sign, value = rest.partition("=")
        if not sign:
            name, _, value = rest.strip().partition(" ")
            if not value:
                return os.environ.get(name)
        os.environ[name.strip()] = self._expand(value.strip())
        return None

    def line_time(self, rest):
        return self.cell_time("", rest)

    def cell_time(self, _, body):
        start, cpu = time.perf_counter(), time.process_time()
        try:
            return self.run_cell(body)
        finally:
            print("CPU times: %.3g s, wall time: %.3g s"
                  % (time.process_time() - cpu, time.perf_counter() - start))

    def line_timeit(self, rest):
        import timeit
        timer = timeit.Timer(rest, globals=self.namespace)
        number, taken = timer.autorange()
        best = min([taken] + timer.repeat(2, number)) / number
        print("%.3g s per loop (best of 3, %d loops each)" % (best, number))

    def cell_timeit(self, _, body):
        return self.line_timeit(body)

    def line_matplotlib(self, _):
        """Figures are shown anyway."""

    def line_load_ext(self, _):
        """Nothing to load without IPython."""

    def line_who(self, _):
        print("  ".join(sorted(n for n in self.namespace if not n.startswith("_"))))

    def _feed(self, program, body):
        sys.stdout.flush()
        done = subprocess.run(program, input=body.encode("utf-8", "surrogateescape"), check=False)
        self.namespace["_exit_code"] = done.returncode
        if done.returncode != 0:
            raise subprocess.CalledProcessError(done.returncode, program[0])

    def cell_bash(self, _, body):
        self._feed([_shell()], body)

    cell_sh = cell_bash

    def cell_writefile(self, rest, body):
        words = shlex.split(rest)
        append = "-a" in words
        path = os.path.expanduser([w for w in words if w != "-a"][0])
        with open(path, "a" if append else "w", encoding="utf-8") as out:
            out.write(body)
        print(("Appended to " if append else "Wrote ") + path)

    def cell_capture(self, _, body):
        import contextlib
        import io
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            self.run_cell(body)


def _is_python(code):
    try:
        ast.parse(code)
        return True
    except (SyntaxError, ValueError):
        return False


def transform(code):
    """Cell text to Python. Text that is Python already is left alone: a `%` or `!` at the start of a line may be
    in the middle of a string."""
    first, _, body = code.lstrip("\n").partition("\n")
    match = _CELL.match(first)
    if match:
        return "__osb__.cell(%r, %r, %r)" % (match.group(1), match.group(2), body)
    if _is_python(code):
        return code
    lines = code.split("\n")
    for i, line in enumerate(lines):
        match = _ASSIGN.match(line)
        if match:
            lines[i] = "%s%s = __osb__.getoutput(%r)" % match.groups()
            continue
        match = _SHELL.match(line)
        if match:
            lines[i] = "%s__osb__.system(%r)" % match.groups()
            continue
        match = _LINE.match(line)
        if match:
            lines[i] = "%s__osb__.line(%r, %r)" % match.groups()
    return "\n".join(lines)
