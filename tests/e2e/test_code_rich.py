#!/usr/bin/env python3
"""Figures of matplotlib and tables of pandas in Python cells, with IPython in the image and without."""
# timeout: 900

import base64
import json
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(HERE), "api"))

import clients  # noqa: E402  pylint: disable=wrong-import-position
from harness import Program, request, until  # noqa: E402  pylint: disable=wrong-import-position

PACKAGES = ("matplotlib==3.10.6", "pandas==2.3.2")
failed = False


def ok(name, condition, detail=""):
    global failed  # pylint: disable=global-statement
    failed |= not condition
    print(f"{'ok' if condition else 'not ok'} {name}{'' if condition else ' ' + str(detail)[:600]}", flush=True)


def cells(execd, *codes):
    """Each cell's results, all in one new context."""
    answer = request(execd, "POST", "/code/context", b'{"language":"python"}')
    context = json.loads(answer.body)["id"]
    for code in codes:
        sock = execd.connect(timeout=300)
        body = json.dumps({"code": code, "context": {"id": context, "language": "python"}})
        events = [json.loads(line) for line in
                  request(execd, "POST", "/code", body.encode(), sock=sock).body.decode().split("\n") if line]
        sock.close()
        yield [e.get("results") or e.get("error") for e in events if e["type"] in ("result", "error")]
    request(execd, "DELETE", f"/code/contexts/{context}")


def is_png(results):
    return base64.b64decode(results.get("image/png", "")).startswith(b"\x89PNG\r\n")


def check(title, packages, preload):
    python = clients.python(*packages)
    env = dict(os.environ, PATH=os.path.dirname(python) + os.pathsep + "/usr/bin:/bin")
    if preload:
        env.update(EXECD_WARM="python", EXECD_PYTHON_PRELOAD="matplotlib.pyplot,pandas")
    with Program("execd", "--port", "0", env=env) as execd:
        if preload:
            until(lambda: next(cells(execd, "import sys; 'pandas' in sys.modules"))[0].get("text") == "True",
                  "the template has them", 300)
        left, shown, value, table, twice = cells(
            execd,
            "import matplotlib.pyplot as plt\nplt.plot([1, 2, 3])\nNone",
            "fig, ax = plt.subplots()\nax.plot([3, 1])\nplt.show()\nprint('after')",
            "from matplotlib.figure import Figure\nf = Figure()\nf.subplots().plot([1, 2])\nf",
            "import pandas as pd\npd.DataFrame({'a': [1, 2], 'b': ['x', 'y']})",
            "for _ in range(2):\n    plt.figure(); plt.plot([1]); plt.show()")
        ok(f"{title}: a figure that is left open is shown", len(left) == 1 and is_png(left[0]), left)
        ok(f"{title}: show()", len(shown) == 1 and is_png(shown[0]), shown)
        ok(f"{title}: a figure as the value", len(value) == 1 and is_png(value[0]), value)
        ok(f"{title}: a table", "<table" in table[0].get("text/html", "") and "a  b" in table[0]["text"], table)
        ok(f"{title}: two figures in one cell", len(twice) == 2 and all(map(is_png, twice)), twice)


check("plain", PACKAGES, False)
check("preloaded", PACKAGES, True)
check("ipython", (*PACKAGES, "ipython==8.37.0"), False)
sys.exit(1 if failed else 0)
