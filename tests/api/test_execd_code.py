#!/usr/bin/env python3
"""The code interpreter of execd: contexts, streams, interrupts, and cells that misbehave."""
# timeout: 900

import http.client
import json
import os
import re
import shutil
import sys
import tempfile

from harness import DEADLINE, Program, case, request, run_cases, until

UUID = re.compile(r"^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$")
SLOW = 300.0  # compilers on a busy machine


class Events:
    """What a run sent."""

    def __init__(self, events):
        self.all = events

    def of(self, *types):
        return [e for e in self.all if e["type"] in types]

    def text(self, kind="stdout"):
        return "".join(e["text"] for e in self.of(kind))

    @property
    def error(self):
        errors = self.of("error")
        return errors[0]["error"] if errors else None

    @property
    def value(self):
        """Plain text of the last result."""
        results = self.of("result")
        return results[-1]["results"]["text"] if results else None

    @property
    def order(self):
        return [e["type"] for e in self.all if e["type"] != "ping"]


class Run:
    """A run whose events are read as they come."""

    def __init__(self, code, language=None, context=None, timeout=DEADLINE):
        body = {"code": code}
        if language or context:
            body["context"] = {"language": language or "python", **({"id": context} if context else {})}
        self.connection = http.client.HTTPConnection(execd.host, execd.port, timeout=timeout)
        self.connection.request("POST", "/code", json.dumps(body), {"Content-Type": "application/json"})
        self.answer = self.connection.getresponse()
        assert self.answer.status == 200, (self.answer.status, self.answer.read())
        assert self.answer.getheader("Content-Type") == "text/event-stream"
        self.events = []

    def next(self):
        """The next event, or None at the end of the stream."""
        line = self.answer.readline()
        if not line:
            self.connection.close()
            return None
        assert line.endswith(b"\n") and self.answer.readline() == b"\n", line
        event = json.loads(line)
        assert isinstance(event["timestamp"], int), event
        self.events.append(event)
        return event

    def until(self, condition):
        while True:
            event = self.next()
            assert event is not None, "the stream ended"
            if condition(event):
                return event

    def finish(self):
        while self.next() is not None:
            pass
        return Events(self.events)

    def leave(self):
        self.answer.close()
        self.connection.close()


def run(code, language=None, context=None, timeout=DEADLINE):
    return Run(code, language, context, timeout).finish()


def call(method, target, body=None):
    answer = request(execd, method, target, json.dumps(body).encode() if body is not None else b"")
    return answer.status, json.loads(answer.body) if answer.body else None


def new_context(language="python", **more):
    connection = http.client.HTTPConnection(execd.host, execd.port, timeout=SLOW)
    connection.request("POST", "/code/context", json.dumps({"language": language, **more}))
    answer = connection.getresponse()
    context = json.loads(answer.read())
    connection.close()
    assert answer.status == 200, context
    assert UUID.match(context["id"]) and context["language"] == language
    return context["id"]


def delete(context):
    assert call("DELETE", f"/code/contexts/{context}")[0] == 200


# ---- the stream ----

@case
def events_come_in_order():
    done = run("import sys\nprint('out'); print('err', file=sys.stderr)\n6 * 7", "python")
    assert done.order[0] == "init" and UUID.match(done.all[0]["text"]), done.all
    assert done.all[1] == {**done.all[1], "type": "ping", "text": "pong"}
    assert done.order[-3:] == ["execution_count", "result", "execution_complete"], done.order
    assert done.text() == "out\n" and done.text("stderr") == "err\n"
    assert done.of("result")[0]["results"] == {"text": "42", "text/plain": "42"}


@case
def errors_have_name_value_and_traceback():
    done = run("def f():\n    return 1 / 0\nf()", "python")
    assert done.order[-4:] == ["status", "error", "execution_count", "execution_complete"], done.order
    assert done.of("status")[0]["text"] == "error"
    assert done.error["ename"] == "ZeroDivisionError" and done.error["evalue"] == "division by zero"
    assert all(isinstance(line, str) for line in done.error["traceback"])
    assert any("return 1 / 0" in line for line in done.error["traceback"])


@case
def output_is_streamed_as_it_comes():
    with tempfile.TemporaryDirectory() as directory:
        fifo = os.path.join(directory, "go")
        os.mkfifo(fifo)
        going = Run(f"print('first', end='')\nopen({fifo!r}).read()\nprint('second')", "python")
        going.until(lambda e: e["type"] == "stdout" and "first" in e["text"])
        with open(fifo, "w", encoding="ascii"):
            pass
        assert going.finish().text() == "firstsecond\n"


@case
def displays_and_values_keep_their_place():
    done = run("print('a')\ndisplay({'x': 1})\nprint('b')\n'value'", "python")
    shown = [e["text"] if e["type"] == "stdout" else e["results"]["text"] for e in done.of("stdout", "result")]
    assert shown == ["a\n", "{'x': 1}", "b\n", "'value'"], shown


@case
def rich_results_are_strings_of_mime_types():
    done = run("class T:\n def _repr_html_(self): return '<b>t</b>'\n def _repr_json_(self): return {'a': [1]}\n"
               " def _repr_png_(self): return b'\\x89PNG'\n def _repr_latex_(self): return '$x$'\nT()", "python")
    results = done.of("result")[0]["results"]
    assert results["text/html"] == "<b>t</b>" and results["image/png"] == "iVBORw==" and results["text/latex"] == "$x$"
    assert json.loads(results["application/json"]) == {"a": [1]}
    assert all(isinstance(value, str) for value in results.values())
    assert results["text"] == results["text/plain"]


@case
def huge_results_are_cut_with_a_note():
    done = run("'x' * 50_000_000", "python")
    assert len(done.value) < 1 << 20 and "cut" in done.value[-200:]
    done = run("class P:\n def _repr_png_(self): return b'p' * 3_500_000\n"
               " def _repr_html_(self): return 'h' * 900_000\n def __repr__(self): return '\\x01' * 900_000\nP()",
               "python")
    line = json.dumps(done.of("result")[0])
    assert len(line) < 4 << 20 and done.order[-1] == "execution_complete", done.order
    assert "left out" in done.value, done.value[-300:]


@case
def texts_of_any_kind_survive():
    text = "é中😀\u2028\u0085\x00\x1b[0m"
    done = run(f"import sys\nsys.stdout.write({text!r})\n{text!r}", "python")
    assert done.text() == text and eval(done.value) == text  # noqa: S307
    done = run("import os\nos.write(1, b'\\xff\\xc3'); os.write(1, b'\\xa9|\\xf0\\x9f')", "python")
    assert done.text() == "\ufffdé|\ufffd", done.text()


@case
def an_empty_cell_is_refused_and_a_comment_is_not():
    assert call("POST", "/code", {"code": "", "context": {"language": "python"}})[0] == 400
    assert run("# nothing", "python").order[-1] == "execution_complete"


@case
def bodies_are_checked():
    for body in (b"", b"[]", b"{", b'{"code":1}', b'{"code":"1","context":[]}', b'{"code":"1","context":{"id":1}}'):
        assert request(execd, "POST", "/code", body).status == 400, body
    for body in ({}, {"language": ""}, {"language": 5}, {"language": "python", "cwd": 1}):
        assert call("POST", "/code/context", body)[0] == 400, body


@case
def unknown_languages_are_named():
    for status, answer in (call("POST", "/code", {"code": "x", "context": {"language": "cobol"}}),
                           call("POST", "/code/context", {"language": "cobol"})):
        assert status == 500 and "unknown language: cobol" in answer["message"] and answer["code"] == "RUNTIME_ERROR"


@case
def without_a_language_it_is_a_shell_command():
    done = run("echo out; echo err >&2; exit 3")
    assert done.text() == "out" and done.text("stderr") == "err"
    assert done.error["evalue"] == "3" and "execution_complete" not in done.order
    assert run("echo $((1 + 1))", "command").text() == "2"
    done = run("echo hidden", "background-command")
    assert done.order == ["init", "execution_complete"], done.order


# ---- contexts ----

@case
def state_is_kept_and_contexts_are_apart():
    one, two = new_context(), new_context()
    run("secret = 'one'", context=one)
    assert run("secret", context=one).value == "'one'"
    assert run("secret", context=two).error["ename"] == "NameError"
    delete(one)
    delete(two)


@case
def contexts_are_listed_found_and_deleted():
    assert call("DELETE", "/code/contexts?language=bash")[0] == 200
    one, two = new_context("bash"), new_context("bash")
    assert [c["id"] for c in call("GET", "/code/contexts?language=bash")[1]] == [one, two]
    assert {one, two} <= {c["id"] for c in call("GET", "/code/contexts")[1]}
    status, found = call("GET", f"/code/contexts/{one}")
    assert status == 200 and found["id"] == one and found["language"] == "bash"
    delete(one)
    status, answer = call("GET", f"/code/contexts/{one}")
    assert status == 404 and answer["code"] == "CONTEXT_NOT_FOUND" and "not found" in answer["message"]
    assert call("DELETE", f"/code/contexts/{one}")[0] == 404
    assert call("DELETE", "/code/contexts")[1]["code"] == "MISSING_QUERY"
    assert call("DELETE", "/code/contexts?language=bash")[0] == 200
    assert call("GET", "/code/contexts?language=bash") == (200, [])
    status, answer = call("POST", "/code", {"code": "1", "context": {"id": one, "language": "bash"}})
    assert status == 500 and "context not found" in answer["message"]
    assert call("GET", "/code/contexts?language=nope")[0] == 500


@case
def runs_without_a_context_share_the_default_one():
    first = run("shared = 5", "python")
    again = run("shared", "python")
    assert again.value == "5" and again.all[0]["text"] == first.all[0]["text"]
    delete(first.all[0]["text"])
    fresh = run("'shared' in globals()", "python")
    assert fresh.value == "False" and fresh.all[0]["text"] != first.all[0]["text"]
    listed = [c["id"] for c in call("GET", "/code/contexts?language=python")[1]]
    assert listed.count(fresh.all[0]["text"]) == 1


@case
def a_context_has_its_own_directory():
    with tempfile.TemporaryDirectory() as directory:
        place = os.path.join(directory, "made", "for it")
        context = new_context(cwd=place)
        assert run("import os; os.getcwd()", context=context).value == repr(place)
        delete(context)
        assert call("POST", "/code/context", {"language": "python", "cwd": "/proc/nothing"})[0] == 500


@case
def one_run_at_a_time():
    context = new_context()
    going = Run("input_is = 1\nimport time\nprint('on')\nwhile True: time.sleep(0.01)", context=context)
    going.until(lambda e: e["type"] == "stdout")
    second = run("1", context=context)
    assert second.order == ["init", "status", "error"] and "session is busy" in second.error["evalue"]
    assert call("DELETE", f"/code?id={context}")[0] == 200
    assert going.finish().error["ename"] == "KeyboardInterrupt"
    delete(context)


@case
def deleting_a_busy_context_ends_its_stream():
    context = new_context()
    going = Run("import os, time\nprint(os.getpid())\ntime.sleep(1000)", context=context)
    pid = int(going.until(lambda e: e["type"] == "stdout")["text"])
    delete(context)
    assert going.finish().error["ename"] == "ContextDeleted"
    until(lambda: not runs(pid, b"osb kernel"), "the kernel is gone")


@case
def fifty_contexts_at_once():
    contexts = [new_context() for _ in range(50)]
    for i, context in enumerate(contexts):
        run(f"me = {i}", context=context)
    runs = [Run("me * me", context=context) for context in contexts]
    assert [int(r.finish().value) for r in runs] == [i * i for i in range(50)]
    for context in contexts:
        delete(context)


# ---- interrupts ----

def interrupt_when_it_prints(code, language="python", context=None, timeout=DEADLINE):
    going = Run(code, language, context, timeout)
    going.until(lambda e: e["type"] in ("stdout", "stderr"))
    status, _ = call("DELETE", f"/code?id={going.events[0]['text']}")
    assert status == 200
    return going.finish()


@case
def an_interrupt_ends_the_cell_and_keeps_the_state():
    context = new_context()
    run("kept = 'yes'", context=context)
    for code in ("print(1)\nwhile True: pass", "import time\nprint(1)\ntime.sleep(1000)",
                 "print(1)\nimport subprocess; subprocess.run(['sleep', '1000'])",
                 "import asyncio\nprint(1)\nawait asyncio.sleep(1000)"):
        done = interrupt_when_it_prints(code, context=context)
        assert done.error["ename"] == "KeyboardInterrupt", (code, done.error)
        assert done.order[-1] == "execution_complete"
    assert run("kept", context=context).value == "'yes'"
    delete(context)


@case
def an_interrupt_right_after_the_start_is_not_lost():
    context = new_context()
    for _ in range(20):
        going = Run("import time\ntime.sleep(1000)", context=context)
        going.until(lambda e: e["type"] == "init")
        assert call("DELETE", f"/code?id={context}")[0] == 200
        error = going.finish().error
        assert error is not None and error["ename"] == "KeyboardInterrupt", error
    assert run("1 + 1", context=context).value == "2"
    delete(context)


@case
def interrupting_what_does_not_run():
    context = new_context()
    assert call("DELETE", f"/code?id={context}")[0] == 200
    assert run("2", context=context).value == "2"
    status, answer = call("DELETE", "/code?id=no-such-thing")
    assert status == 500 and "no-such-thing" in answer["message"]
    assert call("DELETE", "/code")[0] == 400
    delete(context)


@case
def a_cell_that_ignores_the_interrupt_loses_its_kernel():
    context = new_context()
    done = interrupt_when_it_prints(
        "import signal\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\nprint(1)\nwhile True: pass", context=context)
    assert done.error["ename"] == "KernelDied" and "did not react" in done.error["evalue"], done.error
    after = run("3", context=context)
    assert "fresh" in after.text("stderr") and after.value == "3"
    delete(context)


@case
def a_client_that_leaves_interrupts_its_cell():
    context = new_context()
    with tempfile.TemporaryDirectory() as directory:
        note = os.path.join(directory, "note")
        going = Run("import time\ntry:\n print(1)\n time.sleep(1000)\n"
                    f"except KeyboardInterrupt:\n open({note!r}, 'w').close()\n kept = 1", context=context)
        going.until(lambda e: e["type"] == "stdout")
        going.leave()
        until(lambda: os.path.exists(note), "the cell was interrupted")
        until(lambda: "session is busy" not in str(run("1", context=context).error), "the context is free")
    assert run("kept", context=context).value == "1"
    delete(context)


# ---- cells that misbehave ----

@case
def a_hundred_megabytes_arrive():
    going = Run("line = 'x' * 1023 + '\\n'\nfor _ in range(102400): print(line, end='')\n'end'", "python", timeout=SLOW)
    total = 0
    value = None
    while True:
        event = going.next()
        if event is None:
            break
        going.events.clear()
        if event["type"] == "stdout":
            total += len(event["text"])
        if event["type"] == "result":
            value = event["results"]["text"]
    assert total == 100 << 20 and value == "'end'", total
    assert execd.peak_rss_kib() < 150 << 10, execd.peak_rss_kib()


@case
def a_client_that_reads_nothing_stops_the_cell_not_the_daemon():
    context = new_context()
    going = Run("while True: print('x' * 1000)", context=context)
    going.until(lambda e: e["type"] == "stdout")
    before = execd.rss_kib()
    assert run("1 + 1", "python").value == "2"
    assert execd.rss_kib() < before + (32 << 10)
    going.leave()
    until(lambda: "session is busy" not in str(run("1", context=context).error), "the context is free")
    delete(context)


@case
def a_kernel_that_ends_says_how():
    context = new_context()
    for code, how in (("import os; os._exit(7)", "exit status 7"), ("import os; os.kill(os.getpid(), 9)", "killed"),
                      ("import os; os.kill(os.getpid(), 11)", "segmentation fault"),
                      ("import os; print('last words'); os.abort()", "aborted")):
        done = run(code, context=context)
        assert done.order[-1] == "error" and done.error["ename"] == "KernelDied", done.all
        assert how in done.error["evalue"] and "state is lost" in done.error["evalue"], done.error
        after = run("4", context=context)
        assert after.value == "4" and how in after.text("stderr") and "fresh" in after.text("stderr")
    assert "last words" in done.text()
    delete(context)


@case
def exit_is_an_error_of_the_cell():
    context = new_context()
    run("kept = 1", context=context)
    done = run("import sys; sys.exit(3)", context=context)
    assert done.error["ename"] == "SystemExit" and run("kept", context=context).value == "1"
    delete(context)


@case
def recursing_to_death_is_an_error():
    context = new_context()
    done = run("def f(): return f()\nf()", context=context)
    assert done.error["ename"] == "RecursionError"
    # through C, so that it is the stack that ends, and not the machine's memory
    done = run("import sys\nsys.setrecursionlimit(10**9)\nclass R:\n def __repr__(self): return '%r' % self\nrepr(R())",
               context=context)
    assert done.error["ename"] in ("KernelDied", "RecursionError", "MemoryError"), done.error
    assert run("5", context=context).value == "5"
    delete(context)


@case
def forks_do_not_confuse_the_stream():
    context = new_context()
    done = run("import os\npid = os.fork()\nprint('child' if pid == 0 else 'parent')\n"
               "if pid: os.waitpid(pid, 0)\n'value'", context=context)
    assert sorted(done.text().split()) == ["child", "parent"], done.text()
    assert done.order.count("result") == 1 and done.order.count("execution_complete") == 1
    done = run("import os\nfor _ in range(100):\n  if os.fork() == 0: os._exit(0)\n'all'", context=context)
    assert done.value == "'all'" and run("6", context=context).value == "6"
    delete(context)


@case
def closed_and_replaced_streams_come_back():
    context = new_context()
    run("import os, sys\nos.close(1); os.close(2)\nsys.stdout.close()", context=context)
    assert run("print('back')\n7", context=context).text() == "back\n"
    run("import os\nos.dup2(os.open('/dev/null', os.O_WRONLY), 1)", context=context)
    assert run("print('again')", context=context).text() == "again\n"
    run("import io, sys\nsys.stdout = io.StringIO()", context=context)
    assert run("print('still')", context=context).text() == "still\n"
    delete(context)


@case
def signal_handlers_of_a_cell_do_not_outlive_it():
    context = new_context()
    run("import signal\nfor s in range(1, 32):\n  try: signal.signal(s, lambda *_: None)\n  except Exception: pass",
        context=context)
    done = interrupt_when_it_prints("print(1)\nwhile True: pass", context=context)
    assert done.error["ename"] == "KeyboardInterrupt", done.error
    delete(context)


@case
def writing_to_the_drivers_descriptors_ends_the_kernel_truthfully():
    for garbage in (b"hello", b"\x00\x00\x00\x05abcde", b"\xff\xff\xff\xff", b"\x00\x00\x00\x02{}",
                    b"\x00\x00\x00\x0e{\"op\":\"ready\"}", b"\x00\x00\x00\x0d{\"op\":\"done\"}"):
        context = new_context()
        code = (f"import os\nfor fd in range(3, 300):\n  try: os.write(fd, {garbage!r})\n  except OSError: pass\n"
                "import time\ntime.sleep(0.2)\n'value'")
        done = run(code, context=context)
        assert done.order[-1] in ("error", "execution_complete"), done.order
        until(lambda: run("8", context=context).value == "8", "a fresh kernel")
        delete(context)


@case
def closing_the_drivers_descriptors_ends_the_kernel_truthfully():
    context = new_context()
    done = run("import os\nos.closerange(3, 1000)", context=context)
    assert done.error["ename"] == "KernelDied", done.all
    assert run("9", context=context).value == "9"
    delete(context)


def runs(pid, words):
    """Is this process there, and is it still that program? Numbers are used again soon on a busy machine."""
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as line:
            return words in line.read().replace(b"\0", b" ")
    except OSError:
        return False


@case
def everything_a_context_started_ends_with_it():
    context = new_context()
    done = run("import subprocess\n"
               "p = subprocess.Popen(['sh', '-c', 'setsid sleep 98765 & echo $!; wait'], stdout=subprocess.PIPE)\n"
               "print(p.stdout.readline().decode())", context=context)
    pid = int(done.text())
    until(lambda: runs(pid, b"sleep 98765"), "the daemon runs")
    delete(context)
    until(lambda: not runs(pid, b"sleep 98765"), "the daemon is gone")


@case
def output_between_cells_goes_to_the_next():
    context = new_context()
    with tempfile.TemporaryDirectory() as directory:
        note = os.path.join(directory, "note")
        run("import threading, time\ndef later():\n  time.sleep(0.05)\n  print('late words')\n"
            f"  open({note!r}, 'w').close()\nthreading.Thread(target=later).start()", context=context)
        until(lambda: os.path.exists(note), "the thread has printed")
        assert "late words" in run("10", context=context).text()
        run("import threading\ndef flood():\n  for _ in range(3000): print('y' * 99)\n"
            f"  open({note!r} + '2', 'w').close()\nthreading.Thread(target=flood).start()", context=context)
        until(lambda: os.path.exists(note + "2"), "the thread is not blocked")
        done = run("11", context=context)
        assert len(done.text()) <= 300000 and done.value == "11"
    delete(context)


@case
def input_answers_with_an_error():
    done = run("input('name? ')", "python")
    assert done.error and "not available" in done.error["evalue"]


@case
def shell_lines_magics_and_await():
    done = run("!echo from shell\nx = !echo captured\nprint(x[0])", "python")
    assert done.text() == "from shell\ncaptured\n", done.text()
    assert run("import asyncio\nawait asyncio.sleep(0)\n'awaited'", "python").value == "'awaited'"
    with tempfile.TemporaryDirectory() as directory:
        context = new_context()
        run(f"%cd {directory}", context=context)
        assert run("import os; os.getcwd()", context=context).value == repr(directory)
        delete(context)


@case
def memory_of_an_idle_context_is_small():
    new_context()
    until(lambda: run("1", "python").value == "1", "warm")
    context = new_context()
    pids = eval(run("import os; (os.getpid(), os.getppid())", context=context).value)  # noqa: S307
    private = 0
    for pid in pids:
        with open(f"/proc/{pid}/smaps_rollup", encoding="ascii") as rollup:
            private += sum(int(n) for n in re.findall(r"Private_\w+:\s+(\d+)", rollup.read()))
    assert private < 12 << 10, private
    delete(context)


# ---- other languages ----

LANGUAGES = {
    "python": ("x = 2 + 2\nprint('hello')", "x", "4", "undefined_name", "NameError"),
    "javascript": ("const x = 2 + 2;\nconsole.log('hello')", "x", "4", "undefinedName", "ReferenceError"),
    "bash": ("x=$((2 + 2)); echo hello", "echo $x", None, "no_such_command_here", "CommandExecError"),
    "java": ("int x = 2 + 2;\nSystem.out.println(\"hello\");", "x", "4", "int y = 10 / 0;", "EvalException"),
    "go": ("import \"fmt\"\nx := 2 + 2\nfmt.Println(\"hello\")", "x", "4", "var a []int\na[x]++", "panic"),
    "ruby": ("x = 2 + 2\nputs 'hello'", "x", "4", "undefined_name", "NameError"),
    "r": ("x <- 2 + 2\ncat('hello\\n')", "x", "[1] 4", "undefined_name", "Error"),
}
PROGRAMS = {"python": "python3", "javascript": "node", "typescript": "node", "java": "javac", "r": "Rscript"}


def has(language):
    return shutil.which(PROGRAMS.get(language, language)) is not None


def needs(language):
    """A case that only counts where the language is."""
    def mark(function):
        if has(language):
            return case(function)
        print(f"skip {function.__name__} no {PROGRAMS.get(language, language)} here", flush=True)
        return function
    return mark


def language_case(language):
    first, second, value, bad, name = LANGUAGES[language]

    def check():
        context = new_context(language)
        done = run(first, language, context, SLOW)
        assert done.text() == "hello\n" and done.error is None, done.all
        done = run(second, language, context, SLOW)
        assert (done.value if value else done.text().strip()) == (value or "4"), done.all
        done = run(bad, language, context, SLOW)
        assert done.error["ename"] == name and done.error["traceback"], done.error
        done = run(second, language, context, SLOW)
        assert (done.value if value else done.text().strip()) == (value or "4"), done.all
        delete(context)

    check.__name__ = f"{language}_keeps_state_and_tells_errors"
    needs(language)(check)


for _language in LANGUAGES:
    language_case(_language)


@case
def sql_answers_with_columns_and_rows():
    context = new_context("sql")
    done = run("CREATE TABLE t (a INTEGER, b TEXT); INSERT INTO t VALUES (1, 'x;y'), (2, NULL)", "sql", context)
    assert json.loads(done.value) == {"columns": ["affected_rows"], "rows": [["2"]]}
    done = run("WITH w AS (SELECT * FROM t) SELECT * FROM w ORDER BY a", "sql", context)
    assert json.loads(done.value) == {"columns": ["a", "b"], "rows": [["1", "x;y"], ["2", None]]}
    assert run("SELECT nothing", "sql", context).error["ename"] == "DBQueryError"
    delete(context)


@case
def a_language_that_is_not_there_is_named():
    with tempfile.TemporaryDirectory() as nowhere:
        with Program("execd", "--port", "0", env={"PATH": nowhere, "HOME": nowhere}) as bare:
            for language, what in (("python", "python3"), ("javascript", "node"),
                                   ("java", "java"), ("go", "sh"), ("ruby", "ruby")):
                for target, body in (("/code/context", {"language": language}),
                                     ("/code", {"code": "1", "context": {"language": language}})):
                    answer = request(bare, "POST", target, json.dumps(body).encode())
                    message = json.loads(answer.body)["message"]
                    assert answer.status == 500 and "not in this image" in message and what in message, message


@case
def bash_goes_on_after_exit():
    context = new_context("bash")
    run("f() { echo \"f $1\"; }; a=(1 '2 3'); cd /", "bash", context)
    done = run("exit 3", "bash", context)
    assert done.error == {"ename": "CommandExecError", "evalue": "3", "traceback": ["exit status 3"]}
    assert run("f x; echo \"${a[1]}\"; pwd", "bash", context).text() == "f x\n2 3\n/\n"
    run("set -eu; y=1", "bash", context)
    assert run("echo $nothing; echo no", "bash", context).error is not None
    assert run("set +eu; echo $y", "bash", context).text() == "1\n"
    for code in ("echo 1; sleep 1000", "echo 1; while :; do :; done"):
        done = interrupt_when_it_prints(code, "bash", context)
        assert done.error["ename"] == "KeyboardInterrupt", done.all
    assert run("echo $y", "bash", context).text() == "1\n"
    delete(context)


@needs("javascript")
def javascript_awaits_imports_and_stops():
    context = new_context("javascript")

    def js(code):
        return run(code, "javascript", context, SLOW)

    assert js("const a = 1; let b = 2; a + b").value == "3"
    assert js("const a = 5; await new Promise(r => setTimeout(() => r(a), 1))").value == "5"
    assert js(
        "import fs from 'node:fs'; import { join, sep as s } from 'path'; "
        "join('a', 'b') + s + typeof fs").value == "'a/b/object'"
    assert js("const m = await import('node:os'); typeof m.cpus").value == "'function'"
    assert js("require('path').basename('/x/y')").value == "'y'"
    done = js("display.html('<b>'); console.log('after'); 1")
    assert [e["type"] for e in done.of("result", "stdout")] == ["result", "stdout", "result"]
    done = js("setTimeout(() => { throw new Error('late') }, 1); await new Promise(r => setTimeout(r, 50)); 'alive'")
    assert done.value == "'alive'" and "late" in done.text("stderr")
    assert js("throw new TypeError('bad')").error["ename"] == "TypeError"
    for code in ("console.log(1); while (true) {}", "console.log(1); await new Promise(() => {})"):
        done = interrupt_when_it_prints(code, "javascript", context)
        assert done.error["ename"] == "KeyboardInterrupt", done.all
    assert js("a").value == "5"
    done = js("process.exit(4)")
    assert "exit status 4" in done.error["evalue"]
    assert js("6").value == "6"
    delete(context)


@needs("java")
def java_tells_compile_errors_and_stops():
    context = new_context("java")
    done = run("int y = \"a\";", "java", context, SLOW)
    assert done.error["ename"] == "CompilationException" and "incompatible" in done.error["evalue"]
    run("record P(int a) {}\nint f(int n) { return n <= 1 ? 1 : n * f(n - 1); }", "java", context, SLOW)
    assert run("new P(f(5))", "java", context, SLOW).value == "P[a=120]"
    for code in ("System.out.println(1); while (true) {}", "System.out.println(1); Thread.sleep(1000000);"):
        done = interrupt_when_it_prints(code, "java", context, SLOW)
        assert done.error["ename"] == "KeyboardInterrupt", done.all
    assert run("f(3)", "java", context, SLOW).value == "6"
    delete(context)


@needs("go")
def go_keeps_types_goroutines_and_channels():
    context = new_context("go")

    def go(code):
        return run(code, "go", context, SLOW)

    done = go("package main\nimport \"fmt\"\nfunc main() { fmt.Print(\"Hello\") }")
    assert done.text() == "Hello" and done.error is None, done.all
    assert go("package main\nfunc main() { missing++ }").error["ename"] == "CompileError"
    go("type shape interface { area() int }\ntype square struct { side int }\n"
       "func (s square) area() int { return s.side * s.side }\n"
       "all := []shape{square{3}}\nch := make(chan int)\ngo func() { for i := 0; ; i++ { ch <- i } }()")
    assert go("<-ch + <-ch").value == "1"
    assert go("<-ch").value == "2"
    assert go("s, ok := all[0].(square)\ns.side = 4\ns.area()").value == "16"
    assert go("ok").value == "true"
    assert "undefined: nothing" in go("nothing + 1").error["evalue"]
    delete(context)


# ---- templates ----

@case
def a_template_is_replaced_when_the_environment_changes():
    with tempfile.TemporaryDirectory() as directory:
        envs = os.path.join(directory, "envs")
        with open(envs, "w", encoding="ascii") as out:
            out.write("FLAVOUR=one\n")
        with Program("execd", "--port", "0", "--envs", envs, "--warm", "python") as other:
            def flavour():
                answer = request(other, "POST", "/code/context", b'{"language":"python"}')
                context = json.loads(answer.body)["id"]
                code = json.dumps({"code": "import os; os.environ['FLAVOUR']", "context": {
                                  "id": context, "language": "python"}})
                return request(other, "POST", "/code", code.encode()).body.decode()

            for _ in range(3):
                assert "'one'" in flavour()
            with open(envs, "w", encoding="ascii") as out:
                out.write("FLAVOUR=two\n")
            for _ in range(3):
                assert "'two'" in flavour()


@case
def preloaded_modules_are_there_and_missing_ones_do_no_harm():
    env = dict(os.environ, EXECD_PYTHON_PRELOAD="decimal, no_such_module", EXECD_WARM="python")
    with Program("execd", "--port", "0", env=env) as other:
        def loaded():
            answer = request(other, "POST", "/code/context", b'{"language":"python"}')
            context = json.loads(answer.body)["id"]
            code = json.dumps({"code": "import sys; 'decimal' in sys.modules",
                              "context": {"id": context, "language": "python"}})
            return '"text":"True"' in request(other, "POST", "/code", code.encode()).body.decode()
        until(loaded, "a kernel forked from the template", SLOW)


with Program("execd", "--port", "0", "--interrupt-grace", "2s") as execd:
    FAILED = run_cases(sys.argv[1] if len(sys.argv) > 1 else None)
    CODE = execd.stop()
    print(f"{'ok' if CODE == 0 else 'not ok'} execd_leaves_cleanly {CODE}", flush=True)
sys.exit(1 if FAILED or CODE != 0 else 0)
