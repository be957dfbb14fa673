"""Run by test_clients with the server's address and key: the official Python client, unmodified."""

import asyncio
import sys
from datetime import timedelta

from opensandbox import Sandbox, SandboxManager
from opensandbox.config import ConnectionConfig
from opensandbox.exceptions import SandboxApiException, SandboxException
from opensandbox.models.execd import RunCommandOpts
from opensandbox.models.filesystem import (ContentReplaceEntry, MoveEntry, SearchEntry, SetPermissionEntry,
                                           WriteEntry)
from opensandbox.models.sandboxes import SandboxFilter

CONFIG = ConnectionConfig(domain=sys.argv[1], api_key=sys.argv[2], request_timeout=timedelta(seconds=60))


def ok(name, condition):
    print(("ok python " if condition else "not ok python ") + name, flush=True)


def texts(messages):
    return [m.text for m in messages]


async def commands(sandbox):
    run = await sandbox.commands.run("echo out; echo err >&2; exit 3")
    ok("command output and exit code", texts(run.logs.stdout) == ["out"] and
       texts(run.logs.stderr) == ["err"] and run.error.value == "3" and run.exit_code == 3)
    run = await sandbox.commands.run("pwd; echo $GREETING", opts=RunCommandOpts(
        working_directory="/tmp", envs={"GREETING": "hi"}))
    ok("command in a directory with environment", texts(run.logs.stdout) == ["/tmp", "hi"])
    run = await sandbox.commands.run("sleep 60", opts=RunCommandOpts(timeout=timedelta(seconds=1)))
    ok("command timeout", run.error is not None and "timeout" in " ".join(run.error.traceback))
    run = await sandbox.commands.run("echo started; sleep 0.2; echo finished", opts=RunCommandOpts(
        background=True))
    status = await sandbox.commands.get_command_status(run.id)
    while status.running:
        status = await sandbox.commands.get_command_status(run.id)
    logs = await sandbox.commands.get_background_command_logs(run.id)
    ok("background command, status and logs", status.exit_code == 0 and
       logs.content == "started\nfinished\n" and logs.cursor > 0)
    run = await sandbox.commands.run("python3 -c 'print(6*7)'")
    ok("python runs", texts(run.logs.stdout) == ["42"])


async def sessions(sandbox):
    session = await sandbox.commands.create_session(working_directory="/tmp")
    await sandbox.commands.run_in_session(session, "export A=1; cd /usr")
    run = await sandbox.commands.run_in_session(session, "echo $A; pwd")
    ok("session keeps state", texts(run.logs.stdout) == ["1", "/usr"])
    run = await sandbox.commands.run_in_session(session, "exit 7")
    ok("session exit code", run.error is not None and run.error.value == "7")
    await sandbox.commands.delete_session(session)


async def files(sandbox):
    fs = sandbox.files
    data = bytes(range(256)) * 4000
    await fs.write_files([WriteEntry(path="/tmp/d/a.txt", data="hello\n", mode=644),
                          WriteEntry(path="/tmp/d/b.bin", data=data, mode=600)])
    ok("write and read", await fs.read_file("/tmp/d/a.txt") == "hello\n" and
       await fs.read_bytes("/tmp/d/b.bin") == data)
    ok("range", await fs.read_bytes("/tmp/d/b.bin", range_header="bytes=1-3") == b"\x01\x02\x03")
    info = (await fs.get_file_info(["/tmp/d/b.bin"]))["/tmp/d/b.bin"]
    ok("info", info.size == len(data) and info.mode == 600 and info.owner == "root")
    await fs.replace_contents([ContentReplaceEntry(path="/tmp/d/a.txt", old_content="hello",
                                                   new_content="bye")])
    ok("replace", await fs.read_file("/tmp/d/a.txt") == "bye\n")
    found = await fs.search(SearchEntry(path="/tmp/d", pattern="*.txt"))
    ok("search", [e.path for e in found] == ["/tmp/d/a.txt"])
    await fs.move_files([MoveEntry(src="/tmp/d/a.txt", dest="/tmp/d/c.txt")])
    await fs.set_permissions([SetPermissionEntry(path="/tmp/d/c.txt", mode=600)])
    await fs.create_directories([WriteEntry(path="/tmp/d/sub", mode=755)])
    await fs.delete_files(["/tmp/d/b.bin"])
    run = await sandbox.commands.run("cd /tmp/d && stat -c '%n %a' *")
    ok("move, permissions, mkdir, delete", texts(run.logs.stdout) == ["c.txt 600", "sub 755"])
    await fs.delete_directories(["/tmp/d"])
    try:
        await fs.read_file("/tmp/d/c.txt")
        ok("missing file", False)
    except SandboxException as e:
        ok("missing file", isinstance(e, SandboxApiException) and e.status_code == 404)


async def lifecycle(sandbox):
    info = await sandbox.get_info()
    ok("info of the sandbox", info.status.state == "Running" and info.metadata["team"] == "blue" and
       list(info.entrypoint)[-3:] == ["tail", "-f", "/dev/null"])
    before = info.expires_at
    renewed = await sandbox.renew(timedelta(minutes=30))
    ok("renew", renewed.expires_at > before)
    shorter = await sandbox.renew(timedelta(minutes=5))
    ok("renew shortens", shorter.expires_at < renewed.expires_at)
    patched = await sandbox.patch_metadata({"team": "red", "extra": "1"})
    ok("metadata patch", patched.metadata["team"] == "red" and patched.metadata["extra"] == "1")
    metrics = await sandbox.get_metrics()
    ok("metrics", metrics.cpu_count >= 1 and 0 < metrics.memory_used_in_mib <= metrics.memory_total_in_mib)
    endpoint = await sandbox.get_endpoint(8000)
    ok("endpoint", endpoint.endpoint.endswith("/8000"))
    policy = await sandbox.get_egress_policy()
    ok("egress policy is told truthfully", policy.default_action == "allow")
    run = await sandbox.commands.run("sleep 1000 & echo $!", opts=RunCommandOpts(background=True))
    await sandbox.pause()
    ok("paused", (await sandbox.get_info()).status.state == "Paused")
    resumed = await Sandbox.resume(sandbox.id, connection_config=CONFIG)
    status = await resumed.commands.get_command_status(run.id)
    ok("resumed", (await resumed.get_info()).status.state == "Running" and status.id == run.id)
    await resumed.close()
    again = await Sandbox.connect(sandbox.id, connection_config=CONFIG)
    ok("connect", await again.is_healthy())
    await again.close()


async def manager(sandbox):
    async with await SandboxManager.create(connection_config=CONFIG) as m:
        listed = await m.list_sandbox_infos(SandboxFilter(states=["Running"], metadata={"team": "red"}))
        ok("list by state and metadata", [s.id for s in listed.sandbox_infos] == [sandbox.id] and
           listed.pagination.total_items == 1)
        none = await m.list_sandbox_infos(SandboxFilter(states=["Paused"], metadata={"team": "red"}))
        ok("list filters combine", none.sandbox_infos == [])


async def main():
    sandbox = await Sandbox.create("host", connection_config=CONFIG, timeout=timedelta(minutes=10),
                                   metadata={"team": "blue"}, env={"FROM_CREATE": "yes"},
                                   resource={"cpu": "1", "memory": "512Mi"})
    try:
        run = await sandbox.commands.run("echo $FROM_CREATE")
        ok("create with environment", texts(run.logs.stdout) == ["yes"])
        for part in (commands, sessions, files, lifecycle, manager):
            await part(sandbox)
    finally:
        await sandbox.kill()
        await sandbox.close()
    try:
        await Sandbox.connect(sandbox.id, connection_config=CONFIG, connect_timeout=timedelta(seconds=2))
        ok("killed is gone", False)
    except SandboxException:
        ok("killed is gone", True)
    manual = await Sandbox.create("host", connection_config=CONFIG, timeout=None)
    ok("manual cleanup has no expiry", (await manual.get_info()).expires_at is None)
    await manual.kill()
    await manual.close()


asyncio.run(main())
