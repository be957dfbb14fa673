"""Run by test_clients: the blocking face of the official Python client."""

import sys
from datetime import timedelta

from opensandbox import SandboxManagerSync, SandboxSync
from opensandbox.config.connection_sync import ConnectionConfigSync
from opensandbox.models.sandboxes import SandboxFilter

CONFIG = ConnectionConfigSync(domain=sys.argv[1], api_key=sys.argv[2],
                              request_timeout=timedelta(seconds=60))


def ok(name, condition):
    print(("ok python sync " if condition else "not ok python sync ") + name, flush=True)


with SandboxSync.create("host", connection_config=CONFIG, metadata={"kind": "a-b_c.d"}) as sandbox:
    try:
        run = sandbox.commands.run("echo one; echo two")
        ok("run", [m.text for m in run.logs.stdout] == ["one", "two"] and run.exit_code == 0)
        sandbox.files.write_file("/tmp/x", "grüße")
        ok("files", sandbox.files.read_file("/tmp/x") == "grüße")
        with SandboxManagerSync.create(connection_config=CONFIG) as manager:
            found = manager.list_sandbox_infos(SandboxFilter(metadata={"kind": "a-b_c.d"}))
            ok("list with metadata", [s.id for s in found.sandbox_infos] == [sandbox.id])
    finally:
        sandbox.kill()
