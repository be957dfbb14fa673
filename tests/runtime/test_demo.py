#!/usr/bin/env python3
"""`make run` as root at a terminal: it shows a sandbox at work, serves until Ctrl-C, and leaves nothing behind.
timeout: 300

(Without root: test_rootless.py.)"""

import http.client
import json
import os
import pty
import re
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from census import Instance  # noqa: E402
from stage import BUILD, enter, skip  # noqa: E402

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
DEADLINE_S = 120


class Terminal:
    """The demo, and what it has said so far."""

    def __init__(self, place):
        self.master, slave = pty.openpty()
        env = dict(os.environ, OSB_BUILD=BUILD, TMPDIR=place, TERM="dumb")
        self.process = subprocess.Popen([sys.executable, os.path.join(ROOT, "scripts", "demo")], stdin=slave,
                                        stdout=slave, stderr=slave, env=env, start_new_session=True)
        os.close(slave)
        self.text = ""

    def read_until(self, pattern):
        """The match, or an error with all it said; the end counts as said, too."""
        end = time.monotonic() + DEADLINE_S
        while not (found := re.search(pattern, self.text)):
            assert select.select([self.master], [], [], max(0, end - time.monotonic()))[0], self.text
            try:
                data = os.read(self.master, 65536)
            except OSError:  # nobody has the other side any more
                data = b""
            assert data, f"it ended without {pattern!r}:\n{self.text}"
            self.text += data.decode("utf-8", "replace")
        return found


def call(address, method, path, body=None):
    connection = http.client.HTTPConnection(address, timeout=DEADLINE_S)
    connection.request(method, path, json.dumps(body) if body else None, {"Content-Type": "application/json"})
    answer = connection.getresponse()
    text = answer.read()
    connection.close()
    return answer.status, json.loads(text)


def shown_and_cleaned_up(place, before, number):
    """One run; the signal comes when that function returns."""
    demo = Terminal(place)
    try:
        before(demo)
        state = os.path.join(place, os.listdir(place)[0], "state")
        instance = Instance(state)
        demo.text = ""
        demo.process.send_signal(number)
        if demo.read_until("all gone again|until Ctrl-C").group() != "all gone again":
            # Python drops an exception that a signal raises within a destructor; people press again
            demo.process.send_signal(number)
            demo.read_until("all gone again")
        demo.process.wait(DEADLINE_S)
        assert demo.process.returncode == 0, demo.process.returncode
        instance.gone()
        assert os.listdir(place) == [], os.listdir(place)
    finally:
        if demo.process.poll() is None:  # not by force: its server would stay
            demo.process.send_signal(signal.SIGINT)
            demo.process.wait(DEADLINE_S)
        os.close(demo.master)


def serving(demo):
    address = demo.read_until(r"OPEN_SANDBOX_DOMAIN=(\S+)").group(1)
    assert "says 2432902008176640000" in demo.text and re.search(r"PID 1: \S*execd", demo.text), demo.text
    assert len(re.findall(r" [0-9.]+ ms", demo.text)) >= 6, "no timings:\n" + demo.text
    status, made = call(address, "POST", "/v1/sandboxes", {
        "image": {"uri": "any/name:1"}, "entrypoint": ["tail", "-f", "/dev/null"], "resourceLimits": {}})
    assert status == 202 and made["status"]["state"] == "Running", made
    assert call(address, "GET", "/v1/sandboxes")[1]["pagination"]["totalItems"] >= 2


def in_the_middle(demo):
    demo.read_until(r"sandbox \S+ is Running")


def main():
    if os.geteuid() != 0:
        skip("without root it is run by test_rootless.py")
    enter()
    place = tempfile.mkdtemp(prefix="osb-demo-test-", dir="/var/tmp")
    os.chmod(place, 0o755)
    try:
        shown_and_cleaned_up(place, serving, signal.SIGINT)
        print("ok it shows a sandbox at work and Ctrl-C cleans up", flush=True)
        shown_and_cleaned_up(place, serving, signal.SIGTERM)
        print("ok so does SIGTERM", flush=True)
        shown_and_cleaned_up(place, in_the_middle, signal.SIGINT)
        print("ok Ctrl-C in the middle cleans up, too")
    finally:
        shutil.rmtree(place, ignore_errors=True)


main()
