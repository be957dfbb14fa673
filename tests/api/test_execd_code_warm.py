#!/usr/bin/env python3
"""Kernels made in advance: templates, kernels that stand by, and what kernels leave behind."""
# timeout: 900

import json
import os
import tempfile

from codelib import SLOW, delete, descendants, kernels, main, needs, new_context, run, runs, templates
from harness import Program, case, request, until


@case
def a_sandbox_that_runs_no_code_has_no_kernels():
    with Program("execd", "--port", "0") as other:
        assert request(other, "GET", "/code/contexts").body == b"[]" and not descendants(other.pid)
        context = new_context("bash", on=other)
        assert not templates(other) and len(kernels(other, "bash")) == 1
        assert request(other, "DELETE", f"/code/contexts/{context}").status == 200
        until(lambda: not descendants(other.pid), "nothing is left")
        # the first of Python brings the template, which stays
        context = new_context("python", on=other)
        first = templates(other)
        assert len(first) == 1
        assert request(other, "DELETE", f"/code/contexts/{context}").status == 200
        until(lambda: not kernels(other, "python"), "the kernel has left")
        assert templates(other) == first
        assert run("1 + 1", "python", new_context("python", on=other), SLOW, other).value == "2"


@case
def languages_that_were_asked_for_stand_by():
    with tempfile.TemporaryDirectory() as directory:
        envs = os.path.join(directory, "envs")
        env = dict(os.environ, EXECD_WARM=" bash, python,none,cobol,bash", EXECD_ENVS=envs)
        with Program("execd", "--port", "0", env=env, cwd=directory) as other:
            until(lambda: len(kernels(other, "bash")) == 1 and len(templates(other)) == 1, "both are there")
            (spare,) = kernels(other, "bash")
            context = new_context("bash", on=other)
            assert run("echo $$; pwd", "bash", context, SLOW, other).text() == f"{spare}\n{directory}\n"
            assert run("echo once", "bash", context, SLOW, other).text() == "once\n"
            until(lambda: len(kernels(other, "bash")) == 2, "the next one stands by")
            (spare,) = kernels(other, "bash") - {spare}
            # not for those who want something else
            elsewhere = new_context("bash", on=other, cwd="/tmp")
            assert run("echo $$; pwd", "bash", elsewhere, SLOW, other).text() != f"{spare}\n/tmp\n"
            with open(envs, "w", encoding="ascii") as out:
                out.write("FLAVOUR=new\n")
            changed = new_context("bash", on=other)
            assert run("echo $FLAVOUR", "bash", changed, SLOW, other).text() == "new\n"
            until(lambda: spare not in kernels(other, "bash"), "the old one has left")
            # one that dies harms nobody
            used = {int(run("echo $$", "bash", c, SLOW, other).text()) for c in (context, elsewhere, changed)}
            until(lambda: kernels(other, "bash") - used, "another stands by")
            (spare,) = kernels(other, "bash") - used
            os.kill(spare, 9)
            until(lambda: spare not in kernels(other, "bash"), "it is dead")
            assert run("echo fine", "bash", new_context("bash", on=other), SLOW, other).text() == "fine\n"


@case
def a_run_without_a_context_takes_the_one_that_stands_by():
    with Program("execd", "--port", "0", "--warm", "bash") as other:
        until(lambda: kernels(other, "bash"), "it is there")
        (spare,) = kernels(other, "bash")
        body = b'{"code":"echo $$","context":{"language":"bash"}}'
        assert f'"text":"{spare}\\n"' in request(other, "POST", "/code", body).body.decode()


def directory_case(language, busy):
    def check():
        with tempfile.TemporaryDirectory() as directory:
            with Program("execd", "--port", "0", env=dict(os.environ, TMPDIR=directory)) as other:
                context = new_context(language, on=other)
                assert len(os.listdir(directory)) == 1, os.listdir(directory)
                body = json.dumps({"code": busy, "context": {"id": context, "language": language}}).encode()
                sock = other.connect(SLOW)
                sock.sendall(b"POST /code HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
                seen = b""
                while b"busy" not in seen:
                    seen += sock.recv(65536)
                assert request(other, "DELETE", f"/code/contexts/{context}").status == 200
                sock.close()
                until(lambda: os.listdir(directory) == [], "it leaves nothing")
                new_context(language, on=other)
                assert len(os.listdir(directory)) == 1
            assert os.listdir(directory) == [], "execd has left something"

    check.__name__ = f"{language}_leaves_no_files_when_it_is_killed"
    needs(language)(check)


directory_case("r", "cat('busy\\n'); while (TRUE) {}")
directory_case("go", "import \"fmt\"\nfmt.Println(\"busy\")\nfor {}")


@case
def a_template_is_replaced_when_the_environment_changes():
    with tempfile.TemporaryDirectory() as directory:
        envs = os.path.join(directory, "envs")
        with open(envs, "w", encoding="ascii") as out:
            out.write("FLAVOUR=one\n")
        with Program("execd", "--port", "0", "--envs", envs, "--warm", "python") as other:
            def flavour():
                context = new_context("python", on=other)
                return run("import os; os.environ['FLAVOUR']", "python", context, SLOW, other).value

            assert [flavour() for _ in range(3)] == ["'one'"] * 3
            with open(envs, "w", encoding="ascii") as out:
                out.write("FLAVOUR=two\n")
            assert [flavour() for _ in range(3)] == ["'two'"] * 3


@case
def preloaded_modules_are_there_and_missing_ones_do_no_harm():
    env = dict(os.environ, EXECD_PYTHON_PRELOAD="decimal, no_such_module", EXECD_WARM="python")
    with Program("execd", "--port", "0", env=env) as other:
        def loaded():
            context = new_context("python", on=other)
            return run("import sys; 'decimal' in sys.modules", "python", context, SLOW, other).value == "True"

        until(loaded, "a kernel forked from the template", SLOW)


SLOW_WARDEN = '''
import os, time
execve = os.execve
def late(*args):
    time.sleep(1)
    execve(*args)
os.execve = late
'''
DAEMON = '''
import subprocess, sys
p = subprocess.Popen(['sh', '-c', 'setsid sleep 98765 & echo $!; wait'], stdout=subprocess.PIPE)
print(p.stdout.readline().decode(), 'slow_warden' in sys.modules)
'''


@case
def what_a_forked_kernel_starts_ends_with_it_however_late_its_warden_comes():
    with tempfile.TemporaryDirectory() as directory:
        with open(os.path.join(directory, "slow_warden.py"), "w", encoding="ascii") as module:
            module.write(SLOW_WARDEN)
        env = dict(os.environ, PYTHONPATH=directory, EXECD_PYTHON_PRELOAD="slow_warden", EXECD_WARM="python")
        with Program("execd", "--port", "0", env=env) as other:
            forked = False
            while not forked:
                context = new_context("python", on=other)
                pid, forked = run(DAEMON, "python", context, SLOW, other).text().split()
                forked = forked == "True"
                until(lambda daemon=int(pid): runs(daemon, b"sleep 98765"), "the daemon runs")
                delete(context, on=other)
                until(lambda daemon=int(pid): not runs(daemon, b"sleep 98765"), "the daemon is gone")


main()
