#!/usr/bin/env python3
"""Cells that misbehave: their stream ends truthfully, the daemon lives."""
# timeout: 600

import json
import os
import re
import signal
import tempfile

from codelib import (SLOW, Run, call, delete, descendants, interrupt_when_it_prints, main, new_context, run, runs,
                     templates, the_execd)
from harness import Program, case, request, until


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
    assert the_execd().peak_rss_kib() < 150 << 10, the_execd().peak_rss_kib()


@case
def a_client_that_reads_nothing_stops_the_cell_not_the_daemon():
    context = new_context()
    going = Run("while True: print('x' * 1000)", context=context)
    going.until(lambda e: e["type"] == "stdout")
    before = the_execd().rss_kib()
    assert run("1 + 1", "python").value == "2"
    assert the_execd().rss_kib() < before + (32 << 10)
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
def a_cell_cannot_hold_up_contexts_by_stopping_the_template():
    with Program("execd", "--port", "0", "--warm", "python") as other:
        forked = "import os; '--warden-of' in open('/proc/%d/cmdline' % os.getppid()).read()"
        until(lambda: run(forked, "python", new_context("python", on=other), on=other).value == "True", "it forks")
        first = new_context("python", on=other)
        until(lambda: len(templates(other)) == 1, "wardens have become what they are")
        (template,) = templates(other)
        os.kill(template, signal.SIGSTOP)
        second = new_context("python", on=other)  # in the end by a process of its own
        assert run("2 + 2", "python", second, on=other).value == "4"
        assert template not in templates(other), "the stopped one was not given up"
        assert run("1 + 1", "python", first, on=other).value == "2"
        new_context("python", on=other)  # brings a new one
        until(lambda: len(templates(other) - {template}) == 1, "there is a new one")
        os.kill(next(iter(templates(other) - {template})), signal.SIGKILL)
        assert run("3", "python", new_context("python", on=other), on=other).value == "3"


@case
def a_cell_that_stops_itself_is_ended_by_the_interrupt():
    context = new_context()
    going = Run("import os, signal\nprint(os.getpid())\nos.kill(os.getpid(), signal.SIGSTOP)", context=context)
    pid = int(going.until(lambda e: e["type"] == "stdout")["text"])

    def stopped():
        with open(f"/proc/{pid}/stat", encoding="ascii") as stat:
            return stat.read().rsplit(")", 1)[1].split()[0] == "T"

    until(stopped, "it has stopped")
    assert call("DELETE", f"/code?id={context}")[0] == 200
    done = going.finish()
    assert done.error["ename"] == "KernelDied" and "did not react" in done.error["evalue"], done.error
    assert run("4", context=context).value == "4"
    delete(context)


@case
def a_cell_that_kills_its_warden_is_still_the_contexts():
    context = new_context()
    done = run("import os, signal\nos.kill(os.getppid(), signal.SIGKILL)\nprint(os.getpid())", context=context)
    pid = int(done.text())
    assert run("'alive'", context=context).value == "'alive'"
    delete(context)
    until(lambda: not runs(pid, b"osb kernel"), "the kernel is gone")


@case
def the_end_of_a_kernel_whose_warden_was_killed_is_told_as_what_it_is():
    """It has run: that it could not be started is not what happened. A warden that is being killed may take the
    status with it, or the number of the process; then nobody knows, and that is said."""
    context, told = new_context(), set()
    for _ in range(60):
        done = run("import os, signal\nos.kill(os.getppid(), signal.SIGKILL)\nos._exit(5)", context=context)
        assert done.error["ename"] == "KernelDied", done.error
        told.add(done.error["evalue"])
    assert all("exit status 5" in words or "its warden was killed" in words for words in told), told
    assert not any("could not be started" in words for words in told), told
    delete(context)


@case
def a_child_that_holds_the_output_does_not_hold_the_stream():
    context = new_context()
    done = run("import os, time\nif os.fork() == 0:\n  os.setsid()\n  time.sleep(1000)\nprint('last')\nos._exit(5)",
               context=context)
    assert done.error["ename"] == "KernelDied" and "exit status 5" in done.error["evalue"], done.all
    assert done.text() == "last\n"
    delete(context)


@case
def a_flood_of_displays_arrives_in_order():
    context = new_context()
    done = run("for i in range(2000):\n  display(i)\n  print(i)", context=context, timeout=SLOW)
    shown = [e["text"].strip() if e["type"] == "stdout" else e["results"]["text"] for e in done.of("stdout", "result")]
    assert shown == [str(i // 2) for i in range(4000)], shown[:20]
    done = run("display({'x/y%d' % i: 'v' for i in range(70000)}, raw=True)\n'after'", context=context, timeout=SLOW)
    assert done.error is not None or done.value == "'after'", done.all
    until(lambda: run("5", context=context).value == "5", "the context is usable")
    delete(context)


# ---- clumsy clients ----

@case
def a_long_cell_runs_and_one_that_is_too_long_is_refused():
    context = new_context()
    assert run("x = '" + "a" * 5_000_000 + "'\nlen(x)", context=context, timeout=SLOW).value == "5000000"
    body = json.dumps({"code": "#" * (17 << 20), "context": {"id": context, "language": "python"}}).encode()
    try:
        assert request(the_execd(), "POST", "/code", body).status == 413
    except (BrokenPipeError, ConnectionResetError):
        pass  # it did not want to hear the rest
    assert run("len(x)", context=context).value == "5000000"
    delete(context)


@case
def a_cell_with_a_nul_is_told():
    context = new_context("bash")
    assert "NUL" in run("echo \0", "bash", context).error["evalue"]
    assert run("echo fine", "bash", context).text() == "fine\n"
    delete(context)


@case
def who_leaves_while_a_context_is_made_leaves_no_context():
    before = len(call("GET", "/code/contexts")[1])
    for _ in range(5):
        sock = the_execd().connect()
        body = b'{"language":"python"}'
        sock.sendall(b"POST /code/context HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
        sock.close()
    until(lambda: len(call("GET", "/code/contexts")[1]) == before, "they are gone")


@case
def a_context_that_is_deleted_before_it_is_ready_is_told_so():
    with tempfile.TemporaryDirectory() as place:
        slow = os.path.join(place, "ruby")
        with open(slow, "w", encoding="ascii") as out:
            out.write("#!/bin/sh\nexec sleep 1000\n")
        os.chmod(slow, 0o755)
        env = dict(os.environ, PATH=place + os.pathsep + os.environ["PATH"])
        with Program("execd", "--port", "0", env=env) as other:
            sock = other.connect()
            body = b'{"language":"ruby"}'
            sock.sendall(b"POST /code/context HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
            until(lambda: call("GET", "/code/contexts", on=other)[1], "it is under way")
            going = Run("1", "ruby", call("GET", "/code/contexts", on=other)[1][0]["id"], on=other)
            going.until(lambda e: e["type"] == "init")
            assert call("DELETE", "/code/contexts?language=ruby", on=other)[0] == 200
            assert b"deleted meanwhile" in sock.recv(65536)
            assert going.finish().error["ename"] == "ContextDeleted"
            sock.close()
            until(lambda: not descendants(other.pid), "nothing is left")


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


main()
