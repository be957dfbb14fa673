#!/usr/bin/env python3
"""What the server answers when one call for memory or a descriptor fails, in the server or in the runner: each of them,
for each kind of request; and what is so afterwards.
timeout: 900"""

import datetime
import json
import os
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(os.path.dirname(HERE), "runtime"), os.path.join(os.path.dirname(HERE), "api")]

from denials import Denials, ask  # noqa: E402  pylint: disable=wrong-import-position
from harness import case, run_cases, until  # noqa: E402  pylint: disable=wrong-import-position
from hooks import CONTROL_FD, Hooks  # noqa: E402  pylint: disable=wrong-import-position
from serverlib import KEEP  # noqa: E402  pylint: disable=wrong-import-position
from stage import BUILD, Stage, enter  # noqa: E402  pylint: disable=wrong-import-position

WISH = {"image": {"uri": "host"}, "entrypoint": KEEP, "resourceLimits": {"memory": "256Mi"}, "timeout": 3600,
        "metadata": {"of": "tests"}, "env": {"FLAVOUR": "sour"},
        "volumes": [{"name": "v", "mountPath": "/v", "pvc": {"claimName": "kept"}}]}


class Play:
    """One server with one sandbox that stays; the others come and go."""

    def __init__(self, stage, hooks):
        self.stage, self.server = stage, stage.server
        self.stays = self.server.make(metadata={"a": "c", "kind": "stays"})
        self.denials = {"server": Denials(hooks, "server", self.server_pid),
                        "runner": Denials(hooks, "runner", stage.runner)}

    def server_pid(self):
        return self.server.pid if self.server.proc.poll() is None else None

    def ask(self, method, target, body=None):
        fields = [("Content-Type", "application/json")] if body is not None else []
        return ask(self.server, method, target, body, fields)

    def info(self, sandbox=None):
        return self.server.info(sandbox or self.stays).json

    def others(self):
        return [box["id"] for box in self.server.list(pageSize=200)["items"] if box["id"] != self.stays]

    def alone(self):
        """Whatever came of the last request: one sandbox is left, everywhere."""
        for sandbox in self.others():
            assert self.server.delete(sandbox).status in (204, 404)
        until(lambda: not self.others(), "the others to go")

    def sweep(self, what, *args, **more):
        self.denials[what].sweep(*args, **more)


def truth(reply):
    return json.loads(reply.body)


def without_times(box):
    return {key: value for key, value in box.items() if key not in ("status", "createdAt", "expiresAt", "id")}


def questions():
    play.sweep("server", lambda: play.ask("GET", f"/v1/sandboxes/{play.stays}"), truth)
    play.sweep("server", lambda: play.ask("GET", "/v1/sandboxes?metadata=%61%3Dc&state=Runn%69ng&pageSize=5"), truth)
    play.sweep("server", lambda: play.ask("GET", f"/v1/sandboxes/{play.stays}/endpoints/44772?use_server_proxy=tru%65"),
               truth)
    prefix, fields = play.server.endpoint(play.stays)
    play.sweep("server", lambda: ask(play.server, "GET", prefix + "/files/info?path=/%74mp", fields=fields), truth)


def reports():
    """Their labels; the figures are of the moment."""
    def labels(reply):
        return [line.split(":")[0].split(" ")[0] for line in reply.body.decode().splitlines()]

    play.sweep("server", lambda: play.ask("GET", "/health"), truth)
    play.sweep("server", lambda: play.ask("GET", "/metrics"), labels)
    place = f"/v1/sandboxes/{play.stays}/diagnostics"
    for name in ("logs", "events", "inspect", "summary"):
        play.sweep("server", lambda name=name: play.ask("GET", f"{place}/{name}"), labels,
                   told=lambda reply: b"could not be read" in reply.body)


def changes():
    state = {"n": 0}

    def next_one():
        state["n"] += 1
        state["at"] = (datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(hours=1, seconds=state["n"])
                       ).strftime("%Y-%m-%dT%H:%M:%SZ")

    def metadata_is_so(reply):
        assert truth(reply)["metadata"] == play.info()["metadata"], (truth(reply), play.info())
        return play.info()["metadata"]["n"] == str(state["n"])

    def metadata_is_not_so():
        assert play.info()["metadata"].get("n") != str(state["n"]), "it was changed"

    def expiry_is_not_so():
        assert play.info()["expiresAt"][:19] != state["at"][:19], "it was renewed"

    def expiry_is_so(reply):
        return truth(reply)["expiresAt"][:19] == play.info()["expiresAt"][:19] == state["at"][:19]

    play.sweep("server", lambda: play.ask("PATCH", f"/v1/sandboxes/{play.stays}/metadata", {"n": str(state["n"])}),
               metadata_is_so, prepare=next_one, undone=metadata_is_not_so)
    play.sweep("server", lambda: play.ask("POST", f"/v1/sandboxes/{play.stays}/renew-expiration",
                                          {"expiresAt": state["at"]}), expiry_is_so, prepare=next_one,
               undone=expiry_is_not_so)


def made_and_removed(program):
    def is_made(reply):
        box = truth(reply)
        assert play.server.run(box["id"], "echo $FLAVOUR") == "sour"
        return without_times(box)

    def one_more():
        play.alone()
        state["id"] = play.server.make()

    def is_removed(_):
        until(lambda: state["id"] not in play.others(), "it to go")

    state = {}
    play.sweep(program, lambda: play.ask("POST", "/v1/sandboxes", WISH), is_made, prepare=play.alone)
    play.sweep(program, lambda: play.ask("DELETE", f"/v1/sandboxes/{state['id']}"), is_removed, prepare=one_more)
    play.alone()


def paused_and_resumed(program):
    def to(state):
        def prepare():
            def there():
                box = play.info()
                if box["status"]["state"] == state:
                    return True
                if box["status"]["state"] in ("Running", "Paused"):
                    play.server.call("POST", f"/v1/sandboxes/{play.stays}/{'pause' if state == 'Paused' else 'resume'}")
                return False
            until(there, f"it to be {state}")
        return prepare

    def becomes(state):
        def check(_):
            until(lambda: play.info()["status"]["state"] == state, f"it to be {state}")
        return check

    for word, before, after in (("pause", "Running", "Paused"), ("resume", "Paused", "Running")):
        play.sweep(program, lambda word=word: play.ask("POST", f"/v1/sandboxes/{play.stays}/{word}"), becomes(after),
                   prepare=to(before))
    to("Running")()


case(questions)
case(reports)
case(changes)
for which in ("server", "runner"):
    for work in (made_and_removed, paused_and_resumed):
        def one(work=work, which=which):
            work(which)
        one.__name__ = f"{which}_{work.__name__}"
        case(one)


@case
def the_machine_agrees():
    play.stage.instance.agrees({play.stays})
    assert play.server.run(play.stays, "echo lives") == "lives"


enter()
with tempfile.TemporaryFile() as log:
    with Stage("--log-level", "warn", log=log, pass_fds=[CONTROL_FD]) as the_stage:
        control = Hooks(BUILD, 1)
        the_stage.start()
        play = Play(the_stage, control)
        failed = run_cases(sys.argv[1] if len(sys.argv) > 1 else None)
        the_stage.stop()
        if failed:
            log.seek(0)
            sys.stdout.write(log.read().decode("utf-8", "replace")[-20000:])
sys.exit(1 if failed else 0)
