#!/usr/bin/env python3
"""The languages of the code interpreter, and what is special to each."""
# timeout: 900

import ast
import json
import os
import shutil
import tempfile

from codelib import SLOW, delete, interrupt_when_it_prints, main, needs, new_context, run
from harness import Program, case, request

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
LANGUAGES = {
    "python": ("x = 2 + 2\nprint('hello')", "x", "4", "undefined_name", "NameError"),
    "javascript": ("const x = 2 + 2;\nconsole.log('hello')", "x", "4", "undefinedName", "ReferenceError"),
    "bash": ("x=$((2 + 2)); echo hello", "echo $x", None, "no_such_command_here", "CommandExecError"),
    "java": ("int x = 2 + 2;\nSystem.out.println(\"hello\");", "x", "4", "int y = 10 / 0;", "EvalException"),
    "go": ("import \"fmt\"\nx := 2 + 2\nfmt.Println(\"hello\")", "x", "4", "var a []int\na[x]++", "panic"),
    "ruby": ("x = 2 + 2\nputs 'hello'", "x", "4", "undefined_name", "NameError"),
    "r": ("x <- 2 + 2\ncat('hello\\n')", "x", "[1] 4", "undefined_name", "Error"),
}


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


DEATHS = {
    "javascript": ("process.exit(4)", "exit status 4", "5", "5"),
    "bash": ("kill -9 $$", "killed", "echo 5", None),
    "java": ("System.exit(4);", "exit status 4", "5", "5"),
    "go": ("import \"os\"\nos.Exit(4)", "exit status 4", "5", "5"),
    "ruby": ("exit!(4)", "exit status 4", "5", "5"),
    "r": ("quit(status = 4)", "exit status 4", "5", "[1] 5"),
    "sql": ("SELECT hex(zeroblob(1000000000000))", None, "SELECT 5 AS five", '{"columns": ["five"], "rows": [["5"]]}'),
}


def death_case(language):
    code, how, after, value = DEATHS[language]

    def check():
        context = new_context(language)
        done = run(code, language, context, SLOW)
        assert done.order[-1] in ("error", "execution_complete") and done.error is not None, done.all
        if how:
            assert done.error["ename"] == "KernelDied" and how in done.error["evalue"], done.error
        done = run(after, language, context, SLOW)
        assert done.value == value if value else done.text() == "5\n", done.all
        assert ("fresh" in done.text("stderr")) == bool(how), done.all
        delete(context)

    check.__name__ = f"{language}_begins_anew_after_its_end"
    needs("python" if language == "sql" else language)(check)


for _language in DEATHS:
    death_case(_language)


@case
def the_python_driver_is_python_3_8():
    place = os.path.join(ROOT, "kernels", "python")
    for name in sorted(os.listdir(place)):
        with open(os.path.join(place, name), encoding="utf-8") as source:
            ast.parse(source.read(), name, feature_version=(3, 8))


def other_pythons():
    """Interpreters of this machine, from the oldest that the driver knows."""
    names = [f"python3.{minor}" for minor in range(8, 20)]
    return {name: path for name, path in ((n, shutil.which(n)) for n in names) if path and "/shims/" not in path}


@case
def every_python_of_this_machine_runs_cells():
    found = other_pythons()
    assert found, "there is no Python"
    for name, path in found.items():
        with tempfile.TemporaryDirectory() as place:
            os.symlink(path, os.path.join(place, "python3"))
            with Program("execd", "--port", "0", env=dict(os.environ, PATH=place + ":/usr/bin:/bin")) as other:
                context = new_context("python", on=other)
                version = run("import sys; '%d.%d' % sys.version_info[:2]", "python", context, SLOW, other).value
                assert version == repr(name[len("python"):]), (name, version)
                done = run("import asyncio\nawait asyncio.sleep(0)\nprint('on')\n!echo shell\nx = 5\nx", "python",
                           context, SLOW, other)
                assert done.text() == "on\nshell\n" and done.value == "5", (name, done.all)
                assert run("1 / 0", "python", context, SLOW, other).error["ename"] == "ZeroDivisionError", name
                assert run("1 +", "python", context, SLOW, other).error["ename"] == "SyntaxError", name
                forked = new_context("python", on=other)  # by the template, if that was fast
                assert run("display(x := 6)\nx", "python", forked, SLOW, other).value == "6", name


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


@case
def bash_names_the_lines_of_the_cell():
    context = new_context("bash")
    for code, line in (("no_such_1", 1), ("echo\n\nno_such_2", 3), ("f() {\n no_such_3\n}\nf", 2), ("echo $((1/0))", 1),
                       ("echo\nif then fi", 2)):
        done = run(code, "bash", context)
        assert f"line {line}:" in done.text("stderr"), (code, done.text("stderr"))
    assert run("exit 1", "bash", context).error["evalue"] == "1"
    assert "line 2:" in run("\nno_such_4", "bash", context).text("stderr")  # also of the shell after that one
    assert run("echo $LINENO\necho $LINENO", "bash", context).text() == "1\n2\n"
    run("set -x", "bash", context)
    assert "__osb" not in run("echo traced", "bash", context).text("stderr")
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


@needs("go")
def go_without_a_c_compiler_runs_programs():
    with tempfile.TemporaryDirectory() as place:
        for name in ("sh", "mkdir", "cat"):
            os.symlink(shutil.which(name), os.path.join(place, name))
        with open(os.path.join(place, "go"), "w", encoding="ascii") as out:
            out.write(f'#!/bin/sh\nexec {shutil.which("go")} "$@"\n')
        os.chmod(os.path.join(place, "go"), 0o755)
        env = {"PATH": place, "HOME": os.environ.get("HOME", place)}
        with Program("execd", "--port", "0", env=env) as other:
            context = new_context("go", on=other)
            done = run("x := 1\nx", "go", context, SLOW, other)
            assert done.error["ename"] == "MissingCompiler" and "C compiler" in done.error["evalue"], done.error
            done = run("package main\nfunc main() { println(\"fine\") }", "go", context, SLOW, other)
            assert done.text("stderr") == "fine\n" and done.error is None, done.all


main()
