#!/usr/bin/env python3
"""The HTTP layer with clients people use: curl, Python (http.client, httpx, websockets), Node (fetch,
undici, ws), all against the demo server."""
# timeout: 600

import os
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(HERE), "api"))

import clients  # noqa: E402  pylint: disable=wrong-import-position
from harness import Program  # noqa: E402  pylint: disable=wrong-import-position

ROOT = tempfile.mkdtemp(prefix="osb-interop-")
BIG = os.path.join(ROOT, "big")
with open(BIG, "wb") as f:
    f.write(os.urandom(1 << 20) * 5)

failed = False


def ok(name, condition):
    global failed  # pylint: disable=global-statement
    failed |= not condition
    print(("ok " if condition else "not ok ") + name, flush=True)


def passed(argv):
    """Run a client script that prints its own results."""
    global failed  # pylint: disable=global-statement
    done = subprocess.run(argv, stdout=subprocess.PIPE, text=True, check=False, timeout=240)
    sys.stdout.write(done.stdout)
    if done.returncode != 0 or "not ok" in done.stdout:
        failed = True
    ok(f"{os.path.basename(argv[1])} ran to its end", done.returncode == 0)


def curl(*args):
    return subprocess.run(["curl", "-sS", "--max-time", "60", *args], stdout=subprocess.PIPE,
                          check=False).stdout


with Program("http-demo", "--port", "0", "--root", ROOT) as demo:
    data = open(BIG, "rb").read()
    ok("curl get", curl(demo.url + "/") == b"hello\n")
    ok("curl download", curl(demo.url + "/file/big") == data)
    ok("curl resume", curl("-r", "1000-", demo.url + "/file/big") == data[1000:])
    ok("curl upload with expect",
       curl("-H", "Expect: 100-continue", "--data-binary", "@" + BIG, demo.url + "/echo") == data)
    ok("curl chunked upload",
       curl("-H", "Transfer-Encoding: chunked", "-T", BIG, "-X", "POST", demo.url + "/echo") == data)
    ok("curl form", curl("-F", "a=1", "-F", "f=@" + BIG, demo.url + "/multipart") ==
       b"a 1\nf %d\n" % len(data))
    ok("curl event stream", curl("-N", demo.url + "/events?n=3").count(b"\n\n") == 3)
    ok("curl head", b"Content-Length: 6" in curl("-I", demo.url + "/"))
    passed([clients.python("httpx==0.27.2", "websockets==13.1"),
            os.path.join(HERE, "interop_python.py"), demo.url, ROOT])
    node, modules = clients.node("undici@6.19.8", "ws@8.18.0")
    passed([node, os.path.join(HERE, "interop_node.mjs"), demo.url, ROOT, modules])
    ok("the server leaves cleanly", demo.stop() == 0)
sys.exit(1 if failed else 0)
