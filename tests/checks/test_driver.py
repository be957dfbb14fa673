#!/usr/bin/env python3
"""tests/run counts what happened: each kind of ending, from small test programs made for it."""

import os
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

# name of the case, suite/file, program, last line of the driver, something else it must say
CASES = [
    ("exit 0 passes", "api/test_a", "#!/bin/sh\nexit 0\n", "1 passed, 0 failed", "api/test_a"),
    ("any other exit fails", "api/test_a", "#!/bin/sh\necho it broke\nexit 3\n",
     "0 passed, 1 failed", "it broke"),
    ("a signal fails", "api/test_a", "#!/bin/sh\nkill -SEGV $$\n", "0 passed, 1 failed", "SIGSEGV"),
    ("77 skips and says why", "runtime/a.test", "#!/bin/sh\necho no kernel for it\nexit 77\n",
     "0 passed, 0 failed, 1 skipped", "no kernel for it"),
    ("a silent skip fails", "runtime/a.test", "#!/bin/sh\nexit 77\n", "0 passed, 1 failed",
     "without saying why"),
    ("lines count singly", "escape/test_a",
     "#!/bin/sh\necho ok one\necho ok two\necho skip three no disk\nexit 0\n",
     "2 passed, 0 failed, 1 skipped", "three: no disk"),
    ("a line can fail", "escape/test_a", "#!/bin/sh\necho ok one\necho not ok two\nexit 1\n",
     "1 passed, 1 failed", "escape/test_a: two"),
    ("a failed line outweighs exit 0", "escape/test_a", "#!/bin/sh\necho not ok one\nexit 0\n",
     "0 passed, 1 failed", "one"),
    ("exit 1 outweighs good lines", "e2e/test_a", "#!/bin/sh\necho ok one\nexit 1\n",
     "1 passed, 1 failed", "exit code 1"),
    ("a skipped line needs a reason", "e2e/test_a", "#!/bin/sh\necho skip one\n",
     "0 passed, 1 failed", "without saying why"),
    ("TAP counts", "e2e/test_a",
     "#!/bin/sh\necho 1..2\necho ok 1 - a\necho 'ok 2 - b # SKIP late'\n",
     "1 passed, 0 failed, 1 skipped", "late"),
    ("a broken plan fails", "e2e/test_a", "#!/bin/sh\necho 1..3\necho ok 1 - a\n",
     "1 passed, 1 failed", "1 of 3 cases"),
    ("Python is run by Python", "api/test_a.py", "import sys\nsys.exit(0)\n",
     "1 passed, 0 failed", "test_a.py"),
    ("the timeout holds, for children too", "api/test_a",
     "#!/bin/sh\n# timeout: 1\nsleep 1000 &\nwait\n", "0 passed, 1 failed", "not done after 1"),
    ("the environment is there", "api/test_a", '#!/bin/sh\ntest -n "$OSB_BUILD"\n',
     "1 passed, 0 failed", "ok"),
    ("other files are no tests", "api/helper", "#!/bin/sh\nexit 1\n", "0 passed, 0 failed", "=="),
]


def run_case(file, program, last_line, said):
    with tempfile.TemporaryDirectory() as tests:
        path = os.path.join(tests, file)
        os.makedirs(os.path.dirname(path))
        with open(path, "w") as f:
            f.write(program)
        os.chmod(path, 0o755)
        run = subprocess.run([sys.executable, os.path.join(ROOT, "tests", "run"), "--tests", tests,
                              "programs"], capture_output=True, text=True)
    lines = run.stdout.splitlines()
    good = not last_line.startswith("0 passed") and ", 0 failed" in last_line
    if lines and lines[-1] == last_line and said in run.stdout and (run.returncode == 0) == good:
        return None
    return f"wanted: {last_line} / {said}; exit code {run.returncode}\n{run.stdout}{run.stderr}"


def main():
    failed = 0
    for name, *case in CASES:
        wrong = run_case(*case)
        if wrong is not None:
            failed += 1
            # indented, so that lines of the driver under test do not count as ours
            print("\n".join("    " + line for line in wrong.splitlines()))
        print(f"{'not ok' if wrong is not None else 'ok'} driver: {name}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
