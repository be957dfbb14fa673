#!/usr/bin/env python3
"""The code interpreter of execd: streams, contexts, interrupts."""
# timeout: 600

import json
import os
import signal
import subprocess
import tempfile

from codelib import UUID, Run, call, delete, interrupt_when_it_prints, main, new_context, run, runs, the_execd
from harness import case, request, until


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
        assert request(the_execd(), "POST", "/code", body).status == 400, body
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
def an_interrupt_that_waits_at_the_door_leaves_it_closed():
    context = new_context()
    done = run("import os, signal, osb_shell\n"
               "signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})\n"
               "os.kill(os.getpid(), signal.SIGINT)\n"
               "try:\n"
               "    with osb_shell.interruptible(): print('not here')\n"
               "except KeyboardInterrupt:\n"
               "    print(signal.SIGINT in signal.pthread_sigmask(signal.SIG_BLOCK, ()))", context=context)
    assert done.text() == "True\n", done.all
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


main()
