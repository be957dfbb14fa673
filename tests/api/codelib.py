"""What the tests of the code interpreter share: runs whose events are read as they come, contexts, processes.

Cases speak to the execd that main() starts; `on=` names another one.
"""

import http.client
import json
import os
import re
import shutil
import sys
import tempfile
import venv

from harness import DEADLINE, Program, case, request, run_cases

UUID = re.compile(r"^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$")
SLOW = 300.0  # compilers on a busy machine
PROGRAMS = {"python": "python3", "javascript": "node", "typescript": "node", "java": "javac", "r": "Rscript"}

_started = []


def the_execd(on=None):
    return on or _started[0]


class Events:
    """What a run sent."""

    def __init__(self, events):
        self.all = events

    def of(self, *types):
        return [e for e in self.all if e["type"] in types]

    def text(self, kind="stdout"):
        return "".join(e["text"] for e in self.of(kind))

    @property
    def error(self):
        errors = self.of("error")
        return errors[0]["error"] if errors else None

    @property
    def value(self):
        """Plain text of the last result."""
        results = self.of("result")
        return results[-1]["results"]["text"] if results else None

    @property
    def order(self):
        return [e["type"] for e in self.all if e["type"] != "ping"]


class Run:
    """A run whose events are read as they come."""

    def __init__(self, code, language=None, context=None, timeout=DEADLINE, on=None):
        body = {"code": code}
        if language or context:
            body["context"] = {"language": language or "python", **({"id": context} if context else {})}
        self.connection = http.client.HTTPConnection(the_execd(on).host, the_execd(on).port, timeout=timeout)
        self.connection.request("POST", "/code", json.dumps(body), {"Content-Type": "application/json"})
        self.answer = self.connection.getresponse()
        assert self.answer.status == 200, (self.answer.status, self.answer.read())
        assert self.answer.getheader("Content-Type") == "text/event-stream"
        self.events = []

    def next(self):
        """The next event, or None at the end of the stream."""
        line = self.answer.readline()
        if not line:
            self.connection.close()
            return None
        assert line.endswith(b"\n") and self.answer.readline() == b"\n", line
        event = json.loads(line)
        assert isinstance(event["timestamp"], int), event
        self.events.append(event)
        return event

    def until(self, condition):
        while True:
            event = self.next()
            assert event is not None, "the stream ended"
            if condition(event):
                return event

    def finish(self):
        while self.next() is not None:
            pass
        return Events(self.events)

    def leave(self):
        self.answer.close()
        self.connection.close()


def run(code, language=None, context=None, timeout=DEADLINE, on=None):
    return Run(code, language, context, timeout, on).finish()


def call(method, target, body=None, on=None):
    """Status, and the answer as an object."""
    answer = request(the_execd(on), method, target, json.dumps(body).encode() if body is not None else b"")
    return answer.status, json.loads(answer.body) if answer.body else None


def new_context(language="python", on=None, **more):
    connection = http.client.HTTPConnection(the_execd(on).host, the_execd(on).port, timeout=SLOW)
    connection.request("POST", "/code/context", json.dumps({"language": language, **more}))
    answer = connection.getresponse()
    context = json.loads(answer.read())
    connection.close()
    assert answer.status == 200, context
    assert UUID.match(context["id"]) and context["language"] == language
    return context["id"]


def delete(context, on=None):
    assert call("DELETE", f"/code/contexts/{context}", on=on)[0] == 200


def interrupt_when_it_prints(code, language="python", context=None, timeout=DEADLINE):
    going = Run(code, language, context, timeout)
    going.until(lambda e: e["type"] in ("stdout", "stderr"))
    assert call("DELETE", f"/code?id={going.events[0]['text']}")[0] == 200
    return going.finish()


def has(language):
    return shutil.which(PROGRAMS.get(language, language)) is not None


def needs(language):
    """A case that only counts where the language is."""
    def mark(function):
        if has(language):
            return case(function)
        print(f"skip {function.__name__} no {PROGRAMS.get(language, language)} here", flush=True)
        return function
    return mark


def runs(pid, words):
    """Is this process there, and is it still that program? Numbers are used again soon on a busy machine."""
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as line:
            return words in line.read().replace(b"\0", b" ")
    except OSError:
        return False


def descendants(pid):
    """Processes below this one, and what each has in its environment."""
    found = {}
    try:
        for task in os.listdir(f"/proc/{pid}/task"):
            with open(f"/proc/{pid}/task/{task}/children", encoding="ascii") as children:
                for child in children.read().split():
                    with open(f"/proc/{child}/environ", "rb") as env:
                        found[int(child)] = env.read().decode("utf-8", "replace").split("\0")
                    found.update(descendants(child))
    except (FileNotFoundError, ProcessLookupError):
        pass  # it has just ended
    return found


def kernels(program, language):
    return {pid for pid, env in descendants(program.pid).items() if f"OSB_KERNEL={language}" in env}


def is_child(pid, parent):
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as stat:
            return int(stat.read().rsplit(")", 1)[1].split()[1]) == parent
    except (FileNotFoundError, ProcessLookupError):
        return False


def templates(program):
    """Kernels that they forked have the same environment, but wardens as parents."""
    return {pid for pid, env in descendants(program.pid).items() if is_child(pid, program.pid)
            and any(line.startswith("OSB_KERNEL_TEMPLATE=") for line in env)}


def main():
    """Run the cases (or those that match the first argument) against an execd, which has to survive them. Its
    Python has nothing but the standard library, or is the one that OSB_CODE_PYTHON names."""
    with tempfile.TemporaryDirectory() as place:
        python = os.environ.get("OSB_CODE_PYTHON")
        if not python:
            venv.create(place, with_pip=False)
            python = os.path.join(place, "bin", "python3")
        os.environ["PATH"] = os.path.dirname(python) + os.pathsep + os.environ["PATH"]
        with Program("execd", "--port", "0", "--interrupt-grace", "2s") as execd:
            _started.append(execd)
            failed = run_cases(sys.argv[1] if len(sys.argv) > 1 else None)
            code = execd.stop()
    print(f"{'ok' if code == 0 else 'not ok'} execd_leaves_cleanly {code}", flush=True)
    sys.exit(1 if failed or code != 0 else 0)
