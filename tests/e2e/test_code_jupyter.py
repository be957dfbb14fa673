#!/usr/bin/env python3
"""Languages that an image brings as Jupyter kernels: ipykernel under another name, so that it is not ours that runs."""
# timeout: 600

import json
import os
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(HERE), "api"))

import clients  # noqa: E402  pylint: disable=wrong-import-position
from harness import Program, case, request, run_cases, until  # noqa: E402  pylint: disable=wrong-import-position

PACKAGES = ("ipykernel==6.30.1", "jupyter_client==8.6.3")


def run(context, code):
    body = json.dumps({"code": code, "context": {"id": context, "language": "otherlang"}})
    sock = execd.connect(timeout=300)
    answer = request(execd, "POST", "/code", body.encode(), sock=sock)
    sock.close()
    assert answer.status == 200, answer.body
    return [json.loads(line) for line in answer.body.decode().split("\n") if line]


def of(events, kind):
    return [e for e in events if e["type"] == kind]


def new_context():
    sock = execd.connect(timeout=300)
    answer = request(execd, "POST", "/code/context", b'{"language":"otherlang"}', sock=sock)
    sock.close()
    assert answer.status == 200, answer.body
    return json.loads(answer.body)["id"]


@case
def a_kernel_of_the_image_runs_cells():
    context = new_context()
    events = run(context, "import sys\nx = 40\nprint('out'); print('err', file=sys.stderr)\nx + 2")
    assert "".join(e["text"] for e in of(events, "stdout")) == "out\n", events
    assert "err\n" in "".join(e["text"] for e in of(events, "stderr")), events
    assert of(events, "result")[0]["results"]["text/plain"] == "42" and of(events, "execution_complete"), events
    events = run(context, "from IPython.display import display, HTML\ndisplay(HTML('<b>'))\n"
                          "get_ipython().kernel.implementation")
    assert of(events, "result")[0]["results"]["text/html"] == "<b>", events
    assert of(events, "result")[1]["results"]["text"] == "'ipython'", events
    events = run(context, "x / 0")
    assert of(events, "error")[0]["error"]["ename"] == "ZeroDivisionError", events
    assert request(execd, "DELETE", f"/code/contexts/{context}").status == 200


@case
def an_interrupt_reaches_it():
    context = new_context()
    sock = execd.connect(timeout=300)
    body = json.dumps({"code": "import time\nprint('on', flush=True)\ntime.sleep(1000)",
                       "context": {"id": context, "language": "otherlang"}}).encode()
    sock.sendall(b"POST /code HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
    seen = b""
    while b'"on' not in seen:
        seen += sock.recv(65536)
    assert request(execd, "DELETE", f"/code?id={context}").status == 200
    while b"execution_complete" not in seen:
        seen += sock.recv(65536)
    assert b"KeyboardInterrupt" in seen
    sock.close()
    assert of(run(context, "1 + 1"), "result")[0]["results"]["text"] == "2"
    pid = int(of(run(context, "import os; os.getpid()"), "result")[0]["results"]["text"])
    assert request(execd, "DELETE", f"/code/contexts/{context}").status == 200
    def gone():
        try:
            with open(f"/proc/{pid}/cmdline", "rb") as line:
                return b"ipykernel" not in line.read()
        except FileNotFoundError:
            return True

    until(gone, "the kernel is gone")


@case
def a_language_nobody_has_is_unknown():
    assert request(execd, "POST", "/code/context", b'{"language":"nolang"}').status == 500


python = clients.python(*PACKAGES)
with tempfile.TemporaryDirectory() as place:
    os.makedirs(os.path.join(place, "kernels", "special"))
    with open(os.path.join(place, "kernels", "special", "kernel.json"), "w", encoding="ascii") as spec:
        json.dump({"argv": [python, "-m", "ipykernel_launcher", "-f", "{connection_file}"], "display_name": "Special",
                   "language": "otherlang"}, spec)
    env = dict(os.environ, JUPYTER_PATH=place, PATH=os.path.dirname(python) + os.pathsep + os.environ["PATH"])
    with Program("execd", "--port", "0", env=env) as execd:
        failed = run_cases(sys.argv[1] if len(sys.argv) > 1 else None)
sys.exit(1 if failed else 0)
