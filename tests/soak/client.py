"""One client: does this and that with sandboxes of its own, and writes down what it was told."""

import datetime
import hashlib
import random
import threading
import time

import wire
from ledger import ALIVE, DELETED, UNSURE, Box, seconds

KILLS = ("server", "runner")
SCARCE = ("disk", "files", "memory")
MOST_BOXES = 3
KEY = "soak"


class Gone(Exception):
    """The box has ended, as it may."""


def soon(later_s):
    at = datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(seconds=later_s)
    return at.isoformat().replace("+00:00", "Z")


class Client(threading.Thread):
    def __init__(self, number, seed, ledger, hardships, gate):
        super().__init__(name=f"client {number}", daemon=True)
        self.number, self.ledger, self.hardships, self.gate = number, ledger, hardships, gate
        self.chance = random.Random(f"{seed} {number}")
        self.boxes = []
        self.steps, self.doing = 0, ""

    def run(self):
        while self.gate.enter():
            try:
                self.step()
            except Exception as e:  # pylint: disable=broad-except
                self.ledger.wrong(f"{self.name}: {e!r}")
            finally:
                self.gate.leave()

    # --- asking ---

    def api(self, method, path, body=None, ok=(), box=None):
        """An answer with one of these statuses; None if it failed and the reason is known."""
        return self._judge(f"{method} {path}", ok, box,
                           lambda: wire.ask(method, path, body, {"OPEN-SANDBOX-API-KEY": KEY}))

    def execd(self, box, method, path, body=None, raw=None, headers=None, ok=(200,)):
        if box.headers is None:
            self.endpoint(box)
        if box.headers is None:
            return None
        return self._judge(f"{method} {box.id} {path}", ok, box,
                           lambda: wire.ask(method, f"/sandboxes/{box.id}/proxy/44772{path}", body,
                                            {**box.headers, **(headers or {})}, raw))

    def _judge(self, what, ok, box, ask):
        began = time.monotonic()
        try:
            answer = ask()
        except wire.Hung as e:
            self.ledger.wrong(f"no answer to {e}")
            return None
        except wire.Lost as e:
            self.ledger.count("lost")
            if not self.hardships.explain(KILLS + SCARCE + ("execd",), began) and not (box and box.may_be_gone()):
                self.ledger.wrong(f"connection lost without a reason: {e}")
            raise
        if answer.status in ok:
            return answer
        if answer.status == 500 and not answer.body and self.hardships.explain(("memory",), began):
            self.ledger.count("failed without a word")
            raise wire.Mute
        if box is not None and box.may_be_gone() and (
                answer.status in (404, 409, 502, 504) or answer.code.startswith("GATEWAY")):
            self.ledger.count("ended meanwhile")
            raise Gone
        if self._is_known(answer, box, began):
            if answer.status == 503:
                self.gate.pause(0.1)  # as such an answer asks for
            self.ledger.count(f"failed with {answer.status} {answer.code}")
            return None
        self.ledger.wrong(f"{what}: {answer}")
        return None

    def _is_known(self, answer, box, began):
        """Does a fault explain this?"""
        explain = self.hardships.explain
        if answer.status >= 500 and explain(SCARCE, began):
            return True
        if answer.status == 503 and explain(KILLS, began):
            return True
        # until the runtime has listed what it has, the record tells the state
        if answer.code == "GATEWAY::SANDBOX_NOT_RUNNING" and explain(("server",), began):
            return True
        # a create whose sandbox was struck
        return box is None and answer.status in (500, 504) and explain(KILLS + ("execd",), began)

    # --- a step ---

    def step(self):
        self.steps += 1
        self.boxes = [b for b in self.boxes if b.fate == ALIVE]
        if not self.boxes or len(self.boxes) < MOST_BOXES and self.chance.random() < 0.3:
            deed, box = self.create, None
        else:
            box = self.chance.choice(self.boxes)
            deeds = self.PAUSED if box.paused == [True] else self.RUNNING
            deed = getattr(self, self.chance.choices(*zip(*deeds))[0])
            if len(box.paused) > 1:
                deed = self.look_paused
        self.doing = f"{deed.__name__} {box.id if box else ''}"
        try:
            deed(box) if box else deed()
            self.ledger.count(deed.__name__)
        except (wire.Lost, wire.Mute):
            pass
        except Gone:
            if box.fate == ALIVE:
                self.boxes.remove(box)
        self.doing = ""

    RUNNING = [("command", 8), ("background", 3), ("session", 3), ("upload", 6), ("download", 6), ("pause", 3),
               ("renew", 3), ("expire_soon", 1), ("patch", 3), ("get", 4), ("list", 2), ("endpoint", 2),
               ("leave", 4), ("slow", 2), ("delete", 3), ("metrics", 1), ("churn", 1)]
    PAUSED = [("resume", 8), ("get", 2), ("patch", 2), ("renew", 2), ("delete", 2), ("refused", 2)]

    def create(self):
        chance, serial = self.chance, self.ledger.next_serial()
        metadata = {"serial": serial, "client": str(self.number)}
        if chance.random() < 0.3:
            metadata["note"] = "".join(chance.choices("abcdefgh", k=chance.randrange(1, 60)))
        limits = {"memory": chance.choice(["64Mi", "128Mi", "256Mi"])}
        if chance.random() < 0.4:
            limits["cpu"] = chance.choice(["250m", "1", "2"])
        if chance.random() < 0.3:
            limits["pids"] = str(chance.randrange(32, 512))
        if chance.random() < 0.1:
            limits["disk"] = "8Mi"
        body = {"image": {"uri": "host"}, "entrypoint": ["tail", "-f", "/dev/null"], "resourceLimits": limits,
                "env": {f"V{i}": "x" * chance.randrange(200) for i in range(chance.randrange(4))},
                "metadata": metadata, "timeout": chance.choice([60, 600, 3600])}
        if chance.random() < 0.1:  # nobody waits for this one
            with self.ledger.lock:
                self.ledger.lost_creates.add(serial)
            data = wire.text_of("POST", "/v1/sandboxes", body, {"OPEN-SANDBOX-API-KEY": KEY})
            wire.leave_early(data, chance.randrange(len(data) + 1), chance.choice([0, 0, 20]))
            return
        try:
            answer = self.api("POST", "/v1/sandboxes", body, (202,))
        except (wire.Lost, wire.Mute):
            with self.ledger.lock:
                self.ledger.lost_creates.add(serial)
            raise
        if answer is None:
            return
        box = Box(answer.json, metadata)
        box.sparse = "disk" in limits
        self.ledger.add(box)
        self.boxes.append(box)

    def endpoint(self, box):
        answer = self.api("GET", f"/v1/sandboxes/{box.id}/endpoints/44772", ok=(200,), box=box)
        if answer is None:
            return
        headers = answer.json["headers"]
        if box.headers not in (None, headers):
            self.ledger.wrong(f"{box.id} has another token than before")
        box.headers = headers

    # --- inside ---

    def command(self, box):
        word = f"{self.chance.randrange(1 << 30)}"
        code = self.chance.choice([0, 0, 0, 3])
        answer = self.execd(box, "POST", "/command", {"command": f"echo {word}; exit {code}"})
        self._expect_output(box, answer, word, code)

    def _expect_output(self, box, answer, word, code=0):
        if answer is None:
            return
        try:
            events = wire.events_of(answer)
        except ValueError:
            events = []
        kinds = [e["type"] for e in events]
        if not {"execution_complete", "error"} & set(kinds):
            # broken off on the way: only by a fault, and never with an invented end
            if box.must_live() and not self.hardships.explain(KILLS + SCARCE, time.monotonic()):
                self.ledger.wrong(f"{box.id}: a stream without an end: {answer}")
        elif "error" in kinds and code == 0 or "error" not in kinds and code != 0:
            if box.must_live() and not self.hardships.explain(SCARCE, time.monotonic()):
                self.ledger.wrong(f"{box.id}: exit code is not {code}: {answer}")
        elif wire.output_of(answer) != word and not self.hardships.explain(SCARCE, time.monotonic()):
            self.ledger.wrong(f"{box.id}: {word!r} became {answer}")

    def background(self, box):
        answer = self.execd(box, "POST", "/command", {"command": "echo in the background", "background": True})
        if answer is None:
            return
        ids = [e["text"] for e in wire.events_of(answer) if e["type"] == "init"]
        if ids:
            status = self.execd(box, "GET", f"/command/status/{ids[0]}")
            if status and status.json["id"] != ids[0]:
                self.ledger.wrong(f"{box.id}: the status of {ids[0]} is that of {status}")

    def session(self, box):
        answer = self.execd(box, "POST", "/session", {})
        if answer is None:
            return
        session, word = answer.json["session_id"], f"{self.chance.randrange(1 << 30)}"
        if self.execd(box, "POST", f"/session/{session}/run", {"command": f"WORD={word}"}):
            answer = self.execd(box, "POST", f"/session/{session}/run", {"command": "echo $WORD"})
            self._expect_output(box, answer, word)
        if self.chance.random() < 0.8:
            # asked for twice, if a connection to execd broke before the first answer
            twice = (404,) if self.hardships.explain(SCARCE, time.monotonic()) else ()
            self.execd(box, "DELETE", f"/session/{session}", ok=(200, 204) + twice)

    def upload(self, box):
        path = f"/root/file-{self.chance.randrange(6)}"
        size = self.chance.choice([0, 1, 100, 5000, 18431, 18432, 65536, 300000])
        data = self.chance.randbytes(size)
        digest = hashlib.sha256(data).hexdigest()
        body, headers = wire.upload_of(path, data)
        before = box.files.get(path, [None])
        box.files[path] = before + [digest]  # until the answer is there
        answer = self.execd(box, "POST", "/files/upload", raw=body, headers=headers)
        if answer is not None:
            box.files[path] = [digest]

    def download(self, box):
        if not box.files:
            return
        path = self.chance.choice(sorted(box.files))
        self.check_file(box, path)

    def check_file(self, box, path):
        struck = (500,) if box.sparse and self.ledger.disk_was_full else ()
        answer = self.execd(box, "GET", wire.query("/files/download", path=path), ok=(200, 404) + struck)
        if answer is None:
            return
        if answer.status == 404 and answer.code.startswith("SANDBOX"):
            if box.must_live():
                self.ledger.wrong(f"{box.id} is lost: {answer}")
            return
        got = hashlib.sha256(answer.body).hexdigest() if answer.status == 200 else None
        if got not in box.files[path] and box.sparse and self.ledger.disk_was_full:
            box.files[path] = [got]  # a known limit: docs/runtime.md
        elif got not in box.files[path]:
            self.ledger.wrong(f"{box.id}: {path} is {answer.status} with {len(answer.body)} bytes, not what was "
                              "uploaded")
        else:
            box.files[path] = [got]

    def metrics(self, box):
        self.execd(box, "GET", "/metrics")

    def churn(self, box):
        """Work that leaves files and processes for the end to clean up."""
        self.execd(box, "POST", "/command", {"command": "mkdir -p /tmp/t; for i in $(seq 50); do echo $i > /tmp/t/$i;"
                                                        "done; (sleep 1000 &) ; (setsid sleep 1000 &); true"})

    # --- life ---

    def pause(self, box):
        box.paused = [False, True]
        answer = self.api("POST", f"/v1/sandboxes/{box.id}/pause", ok=(202, 409), box=box)
        if answer is not None and answer.status == 202:
            box.paused = [True]
        self.look_paused(box)

    def resume(self, box):
        box.paused = [False, True]
        answer = self.api("POST", f"/v1/sandboxes/{box.id}/resume", ok=(202, 409), box=box)
        if answer is not None and answer.status == 202:
            box.paused = [False]
        self.look_paused(box)

    def look_paused(self, box):
        """Which of the two it is, where it is not known. Told by a server that has been told by the runner."""
        if len(box.paused) == 1:
            return
        began = time.monotonic()
        ready = self.api("GET", "/readyz", ok=(200,))
        answer = self.get(box) if ready else None
        if answer is None or self.hardships.explain(("server",), began + self.hardships.EXPLAINS_S):
            return
        if answer.json["status"]["state"] in ("Running", "Paused"):
            box.paused = [answer.json["status"]["state"] == "Paused"]

    def refused(self, box):
        """A paused sandbox says so instead of hanging."""
        if box.headers is not None:
            self.execd(box, "POST", "/command", {"command": "true"}, ok=(409,))

    def renew(self, box, later_s=None):
        before, wish = box.expiries, soon(later_s or self.chance.randrange(60, 7200))
        box.expiries = before + [wish]  # should there be no answer
        answer = self.api("POST", f"/v1/sandboxes/{box.id}/renew-expiration", {"expiresAt": wish}, (200,), box)
        box.expiries = before if answer is None else [answer.json["expiresAt"]]

    def expire_soon(self, box):
        self.renew(box, self.chance.randrange(1, 10))

    def patch(self, box):
        value = f"v{self.chance.randrange(1 << 20)}"
        name = f"p{self.chance.randrange(3)}"
        before, wishes = box.metadata, [{**m, name: value} for m in box.metadata]
        box.metadata = (before + wishes)[-64:]  # should there be no answer
        answer = self.api("PATCH", f"/v1/sandboxes/{box.id}/metadata", {name: value}, (200,), box)
        box.metadata = before if answer is None else wishes

    def get(self, box):
        answer = self.api("GET", f"/v1/sandboxes/{box.id}", ok=(200,), box=box)
        if answer is not None:
            self.compare(box, answer.json)
        return answer

    def compare(self, box, info):
        """What is told of it against what was acknowledged."""
        state = info["status"]["state"]
        if info["expiresAt"] not in box.expiries and \
                not any(same_instant(info["expiresAt"], e) for e in box.expiries):
            self.ledger.wrong(f"{box.id} expires at {info['expiresAt']}, not {box.expiries}")
        metadata = info.get("metadata") or {}
        if metadata not in box.metadata:
            self.ledger.wrong(f"{box.id} has metadata {metadata}, not {box.metadata}")
        if box.must_live() and state not in ("Running", "Paused", "Pausing", "Resuming"):
            self.ledger.wrong(f"{box.id} is {info['status']}")
        if state in ("Running", "Paused") and box.must_live() and (state == "Paused") not in box.paused and \
                not self.told_anew(box):
            self.ledger.wrong(f"{box.id} is {state}, and paused is {box.paused}")

    def told_anew(self, box):
        """A store without room or memory may not have heard of a pause; then a server that has just been started does
        not know until its runner tells."""
        if not self.ledger.store_was_short:
            return False
        ready = self.api("GET", "/readyz", ok=(200,))
        answer = self.api("GET", f"/v1/sandboxes/{box.id}", ok=(200, 404), box=box) if ready else None
        return answer is None or answer.status == 404 or (answer.json["status"]["state"] == "Paused") in box.paused

    def list(self, box):
        answer = self.api("GET", wire.query("/v1/sandboxes", metadata=f"client={self.number}", pageSize=100),
                          ok=(200,))
        if answer is None:
            return
        here = {item["id"] for item in answer.json["items"]}
        if box.must_live() and box.id not in here:
            self.ledger.wrong(f"{box.id} is not in the list")

    def delete(self, box):
        box.doom(UNSURE)
        answer = self.api("DELETE", f"/v1/sandboxes/{box.id}", ok=(204, 404))
        if answer is not None:
            box.doom(DELETED)
            answer = self.api("GET", f"/v1/sandboxes/{box.id}", ok=(404,))

    # --- bad manners ---

    def leave(self, box):
        if box.headers is None:
            self.endpoint(box)
        command = self.chance.choice(["sleep 1000", "yes | head -c 200000", "head -c 9000000 /dev/zero", "echo hello"])
        data = wire.text_of("POST", f"/sandboxes/{box.id}/proxy/44772/command", {"command": command}, box.headers)
        cut = self.chance.choice([len(data), len(data), self.chance.randrange(len(data))])
        wire.leave_early(data, cut, self.chance.choice([0, 1, 5000]) if cut == len(data) else 0)

    def slow(self, box):
        if box.headers is None:
            self.endpoint(box)
        data = wire.text_of("POST", f"/sandboxes/{box.id}/proxy/44772/command",
                            {"command": "yes a line of output | head -c 3000000"}, box.headers)
        wire.read_slowly(data, self.chance.randrange(5, 30), 2000, lambda: self.gate.pause(0.05))


def same_instant(a, b):
    return abs(seconds(a) - seconds(b)) < 0.001
