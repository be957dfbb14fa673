"""Run by test_code_clients: the official Python code-interpreter client, unmodified, in all its languages."""

import asyncio
import json
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
ABSENT = os.environ["OSB_ABSENT"].split(",")
LANGUAGES = (SupportedLanguage.PYTHON, SupportedLanguage.JAVASCRIPT, SupportedLanguage.TYPESCRIPT,
             SupportedLanguage.BASH, SupportedLanguage.JAVA, SupportedLanguage.GO)

with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "code_cells.json"), encoding="utf-8") as cells_file:
    CELLS = json.load(cells_file)


def ok(name, condition, detail=""):
    print(("ok code " if condition else "not ok code ") + name + ("" if condition else f" {detail}"), flush=True)


class Seen:
    """What the handlers were called with."""

    def __init__(self):
        self.init, self.stdout, self.stderr, self.results, self.errors, self.complete = [], [], [], [], [], []
        self.begun = asyncio.Event()

        def into(to):
            async def handler(message):
                to.append(message)
                if to is self.stdout:
                    self.begun.set()
            return handler

        self.handlers = ExecutionHandlers(
            on_init=into(self.init), on_stdout=into(self.stdout), on_stderr=into(self.stderr),
            on_result=into(self.results), on_error=into(self.errors), on_execution_complete=into(self.complete))

    def text(self):
        return "".join(m.text for m in self.stdout)


def answer(run):
    """The value of a cell, or what it printed where the language has none."""
    return run.result[0].text if run.result else "".join(m.text for m in run.logs.stdout).strip()


async def language(codes, name):
    cells = CELLS[name]
    context = await codes.create_context(name)
    ok(f"{name}: a context", bool(context.id) and context.language == name)
    seen = Seen()
    run = await codes.run(cells["set"], context=context, handlers=seen.handlers)
    ok(f"{name}: handlers", len(seen.init) == 1 and seen.init[0].id == run.id == context.id
       and cells["prints"] in seen.text() and len(seen.complete) == 1 and not seen.errors,
       (seen.text(), seen.errors, seen.stderr))
    run = await codes.run(cells["use"], context=context)
    ok(f"{name}: state is kept", answer(run) == cells["gives"], run)

    other = await codes.create_context(name)
    run = await codes.run(cells["use"], context=other)
    ok(f"{name}: contexts are isolated", run.error is not None and run.error.name == cells["without"], run)
    await codes.delete_context(other.id)

    seen = Seen()
    run = await codes.run(cells["fail"], context=context, handlers=seen.handlers)
    ok(f"{name}: errors", run.error is not None and run.error.name == cells["error"] == seen.errors[0].name
       and bool(run.error.traceback), run.error)

    seen = Seen()
    task = asyncio.create_task(codes.run(cells["busy"], context=context, handlers=seen.handlers))
    await asyncio.wait_for(seen.begun.wait(), 120)
    await codes.interrupt(seen.init[0].id)
    run = await asyncio.wait_for(task, 120)
    ended = run.error is not None and run.error.name == "KeyboardInterrupt"
    ok(f"{name}: an interrupt ends the cell", ended, run.error)
    run = await codes.run(cells["use"], context=context)
    ok(f"{name}: an interrupt keeps the state", answer(run) == cells["gives"], run)
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
    try:
        await codes.interrupt("no-such-id")
        ok("an unknown id cannot be interrupted", False)
    except Exception:  # pylint: disable=broad-except
        ok("an unknown id cannot be interrupted", True)


async def at_once(codes):
    cells = {SupportedLanguage.PYTHON: "print(1)", SupportedLanguage.JAVASCRIPT: "console.log(1)",
             SupportedLanguage.BASH: "echo 1"}
    runs = await asyncio.gather(*(codes.run(cell, language=name) for name, cell in cells.items() if name not in ABSENT))
    ok("languages run at once", all("".join(m.text for m in run.logs.stdout) == "1\n" for run in runs))
    run = await codes.run("result = 2 + 2\nresult", language=SupportedLanguage.PYTHON)
    again = await codes.run("result", language=SupportedLanguage.PYTHON)
    ok("runs without a context share one", run.result[0].text == again.result[0].text == "4" and run.id == again.id)


async def limits():
    """Cells that take more memory than the sandbox has: the kernel is killed, in a sandbox with a template as well."""
    for warm in ("none", "python"):
        sandbox = await Sandbox.create("host", resource={"cpu": "1", "memory": "256Mi"}, timeout=timedelta(minutes=5),
                                       env={"EXECD_WARM": warm}, connection_config=CONFIG)
        try:
            find = "grep -lsz ^OSB_KERNEL_TEMPLATE= /proc/[0-9]*/environ | wc -l"
            run = await sandbox.commands.run(find)
            count = run.logs.stdout[0].text.strip()
            ok(f"EXECD_WARM={warm} of the create", count == ("1" if warm == "python" else "0"), run.logs)
            codes = (await CodeInterpreter.create(sandbox=sandbox)).codes
            context = await codes.create_context(SupportedLanguage.PYTHON)
            run = await codes.run("kept = []\nwhile True: kept.append(bytearray(b'x') * 2**20)", context=context)
            ok("a cell beyond the memory limit", run.error is not None and run.error.name == "KernelDied", run.error)
            ok("and it is told why", "out of memory" in run.error.value, run.error)
            run = await codes.run("1 + 1", context=context)
            ok("the next cell runs", bool(run.result) and run.result[0].text == "2", run)
            ok("and is told that it is a fresh kernel", any("fresh" in m.text for m in run.logs.stderr), run.logs)
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
        await at_once(codes)
        for name in LANGUAGES:
            if name in ABSENT:
                print(f"skip {name} the host image does not have it below /usr", flush=True)
                continue
            await language(codes, name)
    finally:
        await sandbox.kill()
        await sandbox.close()


asyncio.run(main())
