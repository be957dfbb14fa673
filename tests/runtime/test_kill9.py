#!/usr/bin/env python3
"""kill -9 of the server, the runner or both, at random instants under load. After each: what was promised still
answers, what was deleted is gone, what was half made has left nothing; in the end nothing is left at all.
timeout: 600

OSB_ROUNDS sets the number of kills, OSB_SEED repeats the choices of a former run."""

import http.client
import os
import random
import sys
import threading

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from stage import Stage, enter, json, until  # noqa: E402

ROUNDS = int(os.environ.get("OSB_ROUNDS", "50"))
SEED = int(os.environ.get("OSB_SEED", "0")) or random.SystemRandom().randrange(1, 1 << 31)
WORKERS = 4
MOST_ALIVE = 24
LOST = (OSError, EOFError, ValueError, http.client.HTTPException)  # answers that never came, or half


class Ledger:
    """What the server has acknowledged, by id; an operation without an answer leaves both outcomes open."""

    def __init__(self):
        self.lock = threading.Lock()
        self.promised, self.paused, self.open_ends, self.unsure = set(), set(), set(), set()
        self.acknowledged = 0

    def note(self, **changes):
        with self.lock:
            self.acknowledged += 1
            for name, (verb, sandbox) in changes.items():
                getattr(getattr(self, name), verb)(sandbox)

    def take(self, chance):
        """A sandbox that nobody else is working on."""
        with self.lock:
            free = sorted(self.promised - self.unsure)
            if not free:
                return None
            sandbox = chance.choice(free)
            self.unsure.add(sandbox)
            return sandbox

    def give_back(self, sandbox):
        with self.lock:
            self.unsure.discard(sandbox)


def work(server, ledger, chance, stop):
    while not stop.is_set():
        sandbox = None
        try:
            if len(ledger.promised) < MOST_ALIVE and chance.random() < 0.5:
                create(server, ledger, chance)
                continue
            sandbox = ledger.take(chance)
            if sandbox is None:
                create(server, ledger, chance)
                continue
            if chance.choice([delete, pause, use, use])(server, ledger, sandbox):
                ledger.give_back(sandbox)  # otherwise nobody knows what came of it
        except LOST:
            return  # killed; what was under way stays unsure


def create(server, ledger, chance):
    limits = {"memory": "64Mi"}
    if chance.random() < 0.15:
        limits["disk"] = "16Mi"  # a file system, a loop device and a mount more to be left behind
    a = server.create(resourceLimits=limits)
    if a.status == 202:
        ledger.note(promised=("add", a.json["id"]))
    else:
        assert a.status in (500, 503), (a.status, a.body)


def delete(server, ledger, sandbox):
    with ledger.lock:
        ledger.open_ends.add(sandbox)
    a = server.delete(sandbox)
    if a.status == 204:
        ledger.note(promised=("discard", sandbox), open_ends=("discard", sandbox), paused=("discard", sandbox))
        return True
    assert a.status in (500, 503), (a.status, a.body)
    return False


def pause(server, ledger, sandbox):
    way = "resume" if sandbox in ledger.paused else "pause"
    a = server.call("POST", f"/v1/sandboxes/{sandbox}/{way}")
    if a.status == 202:
        ledger.note(paused=("discard" if way == "resume" else "add", sandbox))
        return True
    assert a.status in (500, 503), (a.status, a.body)
    return False


def use(server, ledger, sandbox):
    if sandbox in ledger.paused:
        return True
    a = server.execd(sandbox, "POST", "/command", {"command": "echo at work > /tmp/file; cat /tmp/file"})
    if a.status == 200:
        assert b"at work" in a.body, a.body
    return True


def complain(errors, *args):
    try:
        work(*args)
    except BaseException as e:  # pylint: disable=broad-except
        errors.append(e)


def strike(stage, ledger, chance):
    """Work, and somewhere in it the kill."""
    stop, errors = threading.Event(), []
    threads = [threading.Thread(target=complain, args=(errors, stage.server, ledger,
                                                       random.Random(chance.random()), stop))
               for _ in range(WORKERS)]
    goal = ledger.acknowledged + chance.randrange(1, 12)
    for t in threads:
        t.start()
    until(lambda: ledger.acknowledged >= goal or errors, "work to be done")
    # between two acknowledgements, wherever that is
    stop.wait(chance.random() * 0.02)
    victims = chance.choice([["server"], ["runner"], ["runner", "server"], ["server", "runner"]])
    stage.kill(*victims)
    stop.set()
    for t in threads:
        t.join()
    assert not errors, errors
    return victims


def check(stage, ledger, chance):
    server = stage.server
    items = {}
    for state in ("Running", "Paused"):
        page = server.list(state=state, pageSize=200)
        items.update({i["id"]: i["status"]["state"] for i in page["items"]})
        assert not page["pagination"]["hasNextPage"]
    lost = ledger.promised - set(items) - ledger.open_ends
    assert not lost, f"promised and lost: {[server.info(i, '?includeTerminated=true').body for i in lost]}"
    for sandbox, state in sorted(items.items()):
        if sandbox in ledger.promised - ledger.unsure:
            assert (state == "Paused") == (sandbox in ledger.paused), (sandbox, state)
        if state == "Paused":
            assert server.call("POST", f"/v1/sandboxes/{sandbox}/resume").status == 202
        assert server.run(sandbox, "echo yes") == "yes", sandbox
        # one that nobody was told of may live: its answer was lost on the way
        if sandbox not in ledger.promised or sandbox in ledger.open_ends or chance.random() < 0.3:
            assert server.delete(sandbox).status == 204
            assert server.info(sandbox).status == 404
            ledger.promised.discard(sandbox)
    ledger.promised &= set(items)
    ledger.paused.clear()
    ledger.open_ends.clear()
    ledger.unsure.clear()
    stage.instance.agrees(ledger.promised)


def main():
    chance, ledger = random.Random(SEED), Ledger()
    print(f"{ROUNDS} kills, seed {SEED}", flush=True)
    enter()
    counts = {}
    with Stage(log=-3 if not os.environ.get("OSB_LOG") else None) as stage:
        stage.start()
        for turn in range(ROUNDS):
            try:
                victims = " and ".join(strike(stage, ledger, chance))
                counts[victims] = counts.get(victims, 0) + 1
                if stage.server.proc.poll() is not None:
                    stage.start()
                stage.ready()
                check(stage, ledger, chance)
            except BaseException:
                print(f"in turn {turn}; repeat with OSB_SEED={SEED}", flush=True)
                raise
        for victims, n in sorted(counts.items()):
            print(f"ok killed the {victims}, {n} times".replace(" and ", " and the "))
        for sandbox in sorted(ledger.promised):
            assert stage.server.run(sandbox, "echo $((6 * 7))") == "42"
            assert stage.server.delete(sandbox).status == 204
        stage.instance.agrees(set())
        print("ok what survived answers, and goes when it is deleted", flush=True)
    print("ok nothing is left")
    print(f"   {ledger.acknowledged} operations were acknowledged", json.dumps(counts))


main()
