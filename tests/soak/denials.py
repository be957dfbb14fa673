"""Every call for memory or for a descriptor that a program makes for a request fails once, in turn.

Whatever is denied, the program lives, and what its client is told is true: the whole answer as without the fault, an
answer that says the service failed (500 and above, or an error event), or a connection that is cut. Never is the client
blamed (4xx), an answer wrong or cut unnoticed, or nothing said at all.
"""

import json

from harness import request
from hooks import CLASSES

MOST_CALLS = 3000
VOLATILE = {"timestamp", "execution_time", "execution_count"}


class Wrong(AssertionError):
    """What a client was told is not so."""


def ask(program, method, target, body=None, fields=(), raw=b""):
    """The answer, or None if the connection was cut."""
    data = json.dumps(body).encode() if body is not None else raw
    try:
        return request(program, method, target, data, fields)
    except (EOFError, ConnectionError):
        return None


def events(reply):
    """What a stream said, but for times and numbers; text of one kind in one piece."""
    told = []
    for line in reply.body.decode().split("\n\n"):
        if not line:
            continue
        event = {key: value for key, value in json.loads(line).items() if key not in VOLATILE}
        if event["type"] in ("ping", "init", "execution_count"):
            continue
        if told and told[-1]["type"] == event["type"] and "text" in event:
            told[-1]["text"] += event["text"]
        else:
            told.append(event)
    return told


def failure_told(reply):
    return any(event["type"] == "error" for event in events(reply))


def refused(reply, told):
    """Does it say that the service failed? The client is not to blame."""
    if reply is None:
        return True
    if reply.status < 500:
        return reply.status < 400 and told(reply)
    if "json" in reply.get("content-type", ""):
        json.loads(reply.body)
    return True


class Denials:
    """Denies calls of one program, a different one each time."""

    def __init__(self, hooks, name, pid_of):
        self.hooks, self.name, self.pid_of, self.pid = hooks, name, pid_of, pid_of()

    def alive(self):
        if self.pid_of() != self.pid:
            raise Wrong(f"{self.name} has ended")
        if self.hooks.report():
            raise Wrong(self.hooks.report())

    def sweep(self, act, truth, prepare=lambda: None, told=lambda reply: False, undone=lambda: None):
        """`act` makes the request and `truth` takes its answer apart, into something to compare; `told` says whether an
        answer that looks good tells of a failure itself. If one does in words, `undone` raises if it has happened."""
        prepare()
        want = self.whole(act(), truth)
        for what in CLASSES:
            for nth in range(1, MOST_CALLS):
                prepare()
                before = self.hooks.failed(self.name, what)
                self.hooks.fail_nth(self.name, what, nth)
                try:
                    reply = act()
                    self.hooks.fail_nth(self.name, what, 0)
                    self.alive()
                    struck = self.hooks.failed(self.name, what) > before
                    if not (struck and refused(reply, told)):
                        if self.whole(reply, truth) != want:
                            raise Wrong(f"{reply.body} does not say {want}")
                    elif reply is not None and reply.body:
                        undone()
                except Exception as error:
                    raise Wrong(f"with call {nth} for {what} denied: {error!r}") from error
                finally:
                    self.hooks.fail_nth(self.name, what, 0)
                if not struck:
                    break
            else:
                raise Wrong("it never has enough")

    @staticmethod
    def whole(reply, truth):
        if reply is None or reply.status >= 400:
            raise Wrong(f"not an answer: {reply and (reply.status, reply.body)}")
        return truth(reply)
