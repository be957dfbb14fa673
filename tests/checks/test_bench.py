#!/usr/bin/env python3
"""The benchmarks' harness tells the truth: failures count, missed goals show, pages and plots are well formed."""

import contextlib
import io
import json
import os
import socket
import sys
import tempfile
import threading
import unittest.mock
import xml.dom.minidom

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path[:0] = [os.path.join(ROOT, "bench", "lib"), os.path.join(ROOT, "tests", "api")]

import drive  # noqa: E402
import peers  # noqa: E402
import plot  # noqa: E402
import report as reports  # noqa: E402
import summary  # noqa: E402
from harness import case, main  # noqa: E402
from peers.ours import Ours  # noqa: E402


README = "Words.\n<!-- figures: x -->\nof old\n<!-- end of figures -->\nMore.\n"


def written(**goal):
    """What a report with one group, one curve and one goal comes to, as published; TOP is the first page of all."""
    with tempfile.TemporaryDirectory() as root:
        reports.OUT = reports.DOCS = directory = os.path.join(root, "docs", "benchmarks")
        os.environ["OSB_BENCH_PUBLISH"] = "1"
        with open(os.path.join(root, "README.md"), "w", encoding="utf-8") as top:
            top.write(README)
        with contextlib.redirect_stdout(io.StringIO()):
            report = reports.Report("sample", "A <sample> & more")
            report.group("time", "ms", {"opensandbox": [1.0, 2.0, None, 3.0], "peer": [400.0] * 4, "broken": [None]})
            report.group("create to first result, one by one", "ms", {"opensandbox": [2.5], "docker": [100.0]})
            report.curve("growth", "KiB", "alive", {"one": [(1, 2.0), (10, 4.0)]})
            report.goal("the figure", 3, "ms", **goal)
            report.miss("absentee", "not installed")
            report.profile("time by part", ["part", "ms"], [["the slow one", 2], ["the other", 1]])
            report.write()
        summary.main(root)
        paths = {name: os.path.join(directory, name) for name in os.listdir(directory)}
        return {name: open(path, encoding="utf-8").read()
                for name, path in {**paths, "TOP": os.path.join(root, "README.md")}.items()}


@case
def failures_are_not_averaged_away():
    found = reports.summary([1.0, None, 3.0, None])
    assert (found["n"], found["ok"], found["median"]) == (4, 2, 2.0), found
    assert reports.summary([None]) == {"n": 1, "ok": 0}
    page = written(at_most=5)["sample.md"]
    assert "3/4" in page and "0/1" in page, page


@case
def percentiles_are_of_what_was_seen():
    assert [reports.percentile(range(1, 101), p) for p in (50, 95, 99)] == [51, 96, 100]
    assert reports.percentile([7], 99) == 7


@case
def a_missed_goal_shows_on_both_pages():
    good, bad = written(at_most=3), written(at_most=2.9)
    for name in ("sample.md", "README.md"):
        assert "| the figure | ≤ 3 ms | 3 ms | yes |" in good[name], good[name]
        assert "| the figure | ≤ 2.90 ms | 3 ms | **no** |" in bad[name], bad[name]
    assert "1 of 1 goals are met" in good["README.md"] and "missed are the figure" in bad["README.md"]
    assert json.loads(bad["sample.json"])["goals"][0]["met"] is False
    assert written(at_least=3)["README.md"].count("**no**") == 0 < written(at_least=4)["README.md"].count("**no**")


@case
def a_missed_goal_says_why():
    assert "Missed" not in written(at_most=3, why="because")["sample.md"]
    assert "- Missed: the figure: because" in written(at_most=2, why="because")["sample.md"]
    page = written(at_most=2)["sample.md"]
    assert "- Missed: the figure: what leads in the tables below is time by part: the slow one, 2." in page, page


@case
def the_first_page_of_all_has_the_published_figures():
    top = written(at_most=3)["TOP"]
    assert "2.50 ms, 40 times as fast as `docker run`" in top and "of old" not in top, top
    assert top.startswith("Words.\n<!--") and top.endswith("-->\nMore.\n"), top


@case
def a_page_has_the_command_that_takes_it_again():
    assert "`make bench BENCH=sample` takes" in written(at_most=3)["sample.md"]
    with unittest.mock.patch.dict(os.environ, {"OSB_FLAT_ROUNDS": "7", "OSB_BENCH_SECONDS": "9", "OSB_BENCH_PEERS": "1",
                                               "OSB_BENCH_OUT": "/x", "OSB_FLAT_CURVE": "/y"}):
        page = written(at_most=3)["sample.md"]
    assert "`OSB_BENCH_SECONDS=9 OSB_FLAT_ROUNDS=7 PEERS=1 make bench BENCH=sample` takes" in page, page


@case
def an_absent_peer_is_named_with_the_reason():
    assert "- absentee: not installed" in written(at_most=3)["sample.md"]


@case
def every_form_says_machine_kernel_and_commit():
    forms = written(at_most=3)
    machine = json.loads(forms["sample.json"])["machine"]
    for name in ("sample.md", "sample.svg", "README.md"):
        assert f"commit {machine['commit']}" in forms[name] and machine["kernel"] in forms[name], forms[name]


class Able(peers.common.Peer):
    name = "able"

    def run(self, sandbox, argv):
        return "" if argv == peers.common.TRUE else "something else"


class Unable(peers.common.Peer):
    name = "unable"
    lacks = {"run": "it keeps nothing"}


class Refusing(Able):
    name = "refusing"


@case
def peers_that_cannot_are_named_with_the_reason():
    with contextlib.redirect_stdout(io.StringIO()):
        report = reports.Report("sample", "sample")
        all_of_them = peers.Peers(report)
        all_of_them.directory, all_of_them.found = "/nowhere", [Able(), Unable(), Refusing()]

        def prepare(peer):
            if isinstance(peer, Refusing):
                raise RuntimeError("not\nin /nowhere")
            return peer.name

        ready = all_of_them.each("commands", ("run",), prepare)
    assert list(ready.values()) == ["able"], ready
    assert report.absent == {"unable, commands": "it keeps nothing", "refusing, commands": "not in "}, report.absent


@case
def an_answer_that_is_wrong_is_a_failed_attempt():
    assert Able().execute(None) > 0
    assert peers.attempt(lambda: Able().execute(None, ["echo"], "this")) is None


@case
def every_peer_can_do_a_thing_or_says_why_not():
    kinds = (peers.Docker, peers.Runsc, peers.Podman, peers.Public, peers.Bubblewrap, Ours)
    for kind in kinds:
        for method in ("once", "create", "delete", "run", "put", "get", "open"):
            assert getattr(kind, method, None) or kind.lacks[method], (kind, method)


@case
def the_plot_is_xml_with_a_bar_for_each_that_succeeded():
    tree = xml.dom.minidom.parseString(written(at_most=3)["sample.svg"])
    words = [node.firstChild.data for node in tree.getElementsByTagName("text")]
    assert "opensandbox" in words and "peer" in words and "broken" not in words, words
    assert any("log scale" in word for word in words)
    assert plot.scale(1, 10)[0] is False


class Answers:
    """A server that gives every connection the same bytes for each request, in two pieces."""

    def __init__(self, data, cut):
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.address, self.data, self.cut = self.listener.getsockname(), data, cut
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        while True:
            sock = self.listener.accept()[0]
            threading.Thread(target=self._serve, args=(sock,), daemon=True).start()

    def _serve(self, sock):
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        while sock.recv(4096):
            sock.sendall(self.data[:self.cut])
            sock.sendall(self.data[self.cut:])


def talk(data, cut=20):
    """The bodies that two conversations of two requests see, and what drive() says of them."""
    seen = []

    def flow():
        for _ in range(2):
            seen.append((yield drive.request("GET", "/")))

    times, _, failures = drive.drive(Answers(data, cut).address, [flow(), flow()], limit=20)
    return seen, times, failures


@case
def answers_in_pieces_are_put_together():
    for data, body in ((b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello", b"hello"),
                       (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n0\r\n\r\n",
                        b"2\r\nab\r\n0\r\n\r\n"), (b"HTTP/1.1 204 No Content\r\n\r\n", b"")):
        for cut in (1, 17, len(data) - 1):
            seen, times, failures = talk(data, cut)
            assert seen == [body] * 4 and not failures and all(times), (data, cut, seen, failures)


@case
def an_error_answer_is_a_failure():
    _, times, failures = talk(b"HTTP/1.1 503 No\r\nContent-Length: 4\r\n\r\nbusy")
    assert times == [None, None] and len(failures) == 2 and "503" in failures[0] and "busy" in failures[0], failures


main()
