"""Run by test_code_clients: the official Python code-interpreter client, unmodified, in all its languages."""

import asyncio
import os
import sys
from datetime import timedelta

from code_interpreter import CodeInterpreter, SupportedLanguage
from opensandbox import Sandbox
from opensandbox.config import ConnectionConfig
from opensandbox.models.execd import ExecutionHandlers
from opensandbox.models.filesystem import WriteEntry

DOMAIN, KEY, GO_BIN, TYPESCRIPT = sys.argv[1:5]
CONFIG = ConnectionConfig(domain=DOMAIN, api_key=KEY, request_timeout=timedelta(seconds=300))
MODULES = "/tmp/node_modules_for_tests"


def ok(name, condition, detail=""):
    print(("ok code " if condition else "not ok code ") + name + ("" if condition else f" {detail}"), flush=True)


class Seen:
    """What the handlers were called with."""

    def __init__(self):
        self.init, self.stdout, self.stderr, self.results, self.errors, self.complete = [], [], [], [], [], []

        def into(to):
            async def handler(message):
                to.append(message)
            return handler

        self.handlers = ExecutionHandlers(
            on_init=into(self.init), on_stdout=into(self.stdout), on_stderr=into(self.stderr),
            on_result=into(self.results), on_error=into(self.errors), on_execution_complete=into(self.complete))

    def text(self):
        return "".join(m.text for m in self.stdout)


# language: (cell that prints and sets, what it prints, cell with a value, value, failing cell, name of the error)
CELLS = {
    SupportedLanguage.PYTHON: (
        "x = 40\nprint('Hello from Python')",
        "Hello from Python",
        "x + 2",
        "42",
        "undefined_variable",
        "NameError"),
        SupportedLanguage.JAVASCRIPT: (
            "const x = 40;\nconsole.log('Hello from JavaScript')",
            "Hello from JavaScript",
            "x + 2",
            "42",
            "throw new TypeError('no')",
            "TypeError"),
            SupportedLanguage.TYPESCRIPT: (
                "interface P { n: number }\nconst p: P = { n: 40 };\nconsole.log(`Hello ${p.n as number}`)",
                "Hello 40",
                "const y: number = p.n + 2; y",
                "42",
                "throw new Error('ts-runtime-error')",
                "Error"),
                SupportedLanguage.BASH: (
                    "x=40; echo 'Hello from Bash'",
                    "Hello from Bash",
                    "echo $((x + 2))",
                    None,
                    "(exit 7)",
                    "CommandExecError"),
                    SupportedLanguage.JAVA: (
                        "int x = 40;\nSystem.out.println(\"Hello from Java\");",
                        "Hello from Java",
                        "x + 2",
                        "42",
                        "int y = 10 / 0;",
                        "EvalException"),
                        SupportedLanguage.GO: (
                            "import \"fmt\"\nx := 40\nfmt.Println(\"Hello from Go\")",
                            "Hello from Go",
                            "x + 2",
                            "42",
                            "package main\nfunc main() { undeclared++ }",
                            "CompileError"),
                             }


async def language(codes, name):
    first, printed, second, value, bad, error = CELLS[name]
    context = await codes.create_context(name)
    ok(f"{name}: a context", bool(context.id) and context.language == name)
    seen = Seen()
    run = await codes.run(first, context=context, handlers=seen.handlers)
    ok(f"{name}: handlers", len(seen.init) == 1 and seen.init[0].id == run.id == context.id and printed in seen.text(
    ) and len(seen.complete) == 1 and not seen.errors, (seen.text(), seen.errors, seen.stderr))
    run = await codes.run(second, context=context)
    got = run.result[0].text if run.result else "".join(m.text for m in run.logs.stdout).strip()
    ok(f"{name}: state is kept", got == (value or "42"), got)
    seen = Seen()
    run = await codes.run(bad, context=context, handlers=seen.handlers)
    ok(f"{name}: errors", run.error is not None and run.error.name ==
       error and seen.errors[0].name == error, run.error)
    await codes.delete_context(context.id)


async def contexts(codes):
    await codes.delete_contexts(SupportedLanguage.BASH)
    one, two = [await codes.create_context(SupportedLanguage.BASH) for _ in range(2)]
    ids = {c.id for c in await codes.list_contexts(SupportedLanguage.BASH)}
    ok("contexts are listed", {one.id, two.id} <= ids)
    found = await codes.get_context(one.id)
    ok("a context is found", (found.id, found.language) == (one.id, "bash"))
    await codes.delete_context(one.id)
    try:
        await codes.get_context(one.id)
        ok("a deleted context is not found", False)
    except Exception:  # pylint: disable=broad-except
        ok("a deleted context is not found", True)
    await codes.delete_contexts(SupportedLanguage.BASH)
    ok("contexts of a language are deleted", await codes.list_contexts(SupportedLanguage.BASH) == [])
    one, two = [await codes.create_context(SupportedLanguage.PYTHON) for _ in range(2)]
    await codes.run("secret = 1", context=one)
    run = await codes.run("secret", context=two)
    ok("contexts are isolated", run.error is not None and run.error.name == "NameError")


async def interrupt(codes):
    context = await codes.create_context(SupportedLanguage.PYTHON)
    await codes.run("kept = 'yes'", context=context)
    seen, begun = Seen(), asyncio.Event()

    async def on_stdout(_):
        begun.set()

    seen.handlers.on_stdout = on_stdout
    task = asyncio.create_task(codes.run("import time\nprint('on', flush=True)\ntime.sleep(1000)", context=context,
                                         handlers=seen.handlers))
    await asyncio.wait_for(begun.wait(), 60)
    await codes.interrupt(seen.init[0].id)
    run = await asyncio.wait_for(task, 60)
    ok("an interrupt ends the cell", run.error is not None and run.error.name == "KeyboardInterrupt")
    run = await codes.run("kept", context=context)
    ok("an interrupt keeps the state", run.result[0].text == "'yes'")
    try:
        await codes.interrupt("no-such-id")
        ok("an unknown id cannot be interrupted", False)
    except Exception:  # pylint: disable=broad-except
        ok("an unknown id cannot be interrupted", True)


async def at_once(codes):
    names = (SupportedLanguage.PYTHON, SupportedLanguage.JAVASCRIPT, SupportedLanguage.BASH)
    cells = ("print(1)", "console.log(1)", "echo 1")
    runs = await asyncio.gather(*(codes.run(cell, language=name) for name, cell in zip(names, cells)))
    ok("languages run at once", all("".join(m.text for m in run.logs.stdout) == "1\n" for run in runs))
    run = await codes.run("result = 2 + 2\nresult", language=SupportedLanguage.PYTHON)
    again = await codes.run("result", language=SupportedLanguage.PYTHON)
    ok("runs without a context share one", run.result[0].text == again.result[0].text == "4" and run.id == again.id)


async def limits():
    """A cell that takes more memory than the sandbox has."""
    sandbox = await Sandbox.create("host", resource={"cpu": "1", "memory": "256Mi"}, timeout=timedelta(minutes=5),
                                   connection_config=CONFIG)
    try:
        codes = (await CodeInterpreter.create(sandbox=sandbox)).codes
        context = await codes.create_context(SupportedLanguage.PYTHON)
        run = await codes.run("hog = b'x' * 10**9", context=context)
        ended = run.error is not None and run.error.name in ("KernelDied", "MemoryError")
        ok("a cell beyond the memory limit", ended, run.error)
        ok("and it is told why", "out of memory" in run.error.value or run.error.name == "MemoryError", run.error)
        run = await codes.run("1 + 1", context=context)
        ok("the next cell runs", bool(run.result) and run.result[0].text == "2", run)
    finally:
        await sandbox.kill()
        await sandbox.close()


async def main():
    await limits()
    env = {"PATH": f"{GO_BIN}:/usr/local/bin:/usr/bin:/bin", "NODE_PATH": MODULES, "HOME": "/root"}
    sandbox = await Sandbox.create("host", env=env, timeout=timedelta(minutes=15), connection_config=CONFIG)
    try:
        interpreter = await CodeInterpreter.create(sandbox=sandbox)
        codes = interpreter.codes
        if TYPESCRIPT:
            for name in ("package.json", "lib/typescript.js"):
                with open(os.path.join(TYPESCRIPT, name), "rb") as source:
                    entry = WriteEntry(path=f"{MODULES}/typescript/{name}", data=source.read(), mode=644)
                    await sandbox.files.write_files([entry])
        await contexts(codes)
        await interrupt(codes)
        await at_once(codes)
        for name in CELLS:
            if name == SupportedLanguage.GO and not GO_BIN:
                print("skip go the host image has no Go below /usr", flush=True)
                continue
            await language(codes, name)
    finally:
        await sandbox.kill()
        await sandbox.close()


asyncio.run(main())
