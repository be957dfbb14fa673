"""Other ways to get a sandbox, started and stopped by the benchmark itself, with data of their own in a directory
that goes afterwards. All get the same root file system; nothing is pulled.

    with Peers(report) as peers:
        for peer, sandbox in peers.each("a command", ("create", "run"), lambda peer: peer.create()).items():
            ...

Here is decided which peers there are. What one can do is what it has methods for (`Peer` in common.py has the list).
Those that are not installed, do not work here or cannot do what is measured are named in the report with the reason.
"""

import contextlib
import tempfile

import rootfs

from .bubblewrap import Bubblewrap
from .common import kill_all_of, remove_cgroups
from .docker import Docker, Dockerd, Runsc
from .podman import Podman
from .public import Public


def attempt(action):
    """Its result, or None."""
    try:
        return action()
    except Exception:  # pylint: disable=broad-except
        return None


class Peers:
    """All that work here, from the beginning of a `with` to its end."""

    def __init__(self, report):
        self.report, self.found, self.no_daemon = report, [], None
        self.ends = contextlib.ExitStack()
        self.directory = self.daemon = self.root = None

    def __enter__(self):
        self.directory = self.ends.enter_context(
            tempfile.TemporaryDirectory(prefix="osb-peers-", ignore_cleanup_errors=True))
        self.ends.callback(remove_cgroups)
        self.ends.callback(kill_all_of, self.directory)
        makers = ((Docker, lambda: Docker(self._daemon())), (Runsc, lambda: Runsc(self._daemon())),
                  (Podman, lambda: Podman(self.directory, self._root())),
                  (Public, lambda: Public(self.directory, self._daemon())),
                  (Bubblewrap, lambda: Bubblewrap(self._root())))
        try:
            for kind, make in makers:
                print(f"starting {kind.name}", flush=True)
                try:
                    peer = make()
                except Exception as error:  # pylint: disable=broad-except
                    self._miss(kind.name, error)
                else:
                    self.ends.callback(peer.stop)
                    self.found.append(peer)
        except BaseException:
            self.ends.close()
            raise
        return self

    def __exit__(self, *_):
        self.ends.close()

    def __iter__(self):
        return iter(self.found)

    def _daemon(self):
        if self.no_daemon:
            raise self.no_daemon
        try:
            if not self.daemon:
                self.daemon = Dockerd(self.directory)
                self.ends.callback(self.daemon.stop)
        except Exception as error:
            self.no_daemon = error
            raise
        return self.daemon

    def _root(self):
        self.root = self.root or rootfs.unpack(self.directory)
        return self.root

    def _miss(self, who, why):
        self.report.miss(who, str(why).replace(self.directory, "").replace("\n", " "))

    def each(self, what, methods, prepare=lambda peer: None):
        """Peer -> what prepare() made, of those that have these methods and could be prepared."""
        ready = {}
        for peer in self.found:
            lacking = [method for method in methods if not getattr(peer, method, None)]
            if lacking:
                self._miss(f"{peer.name}, {what}", peer.lacks[lacking[0]])
                continue
            try:
                ready[peer] = prepare(peer)
            except Exception as error:  # pylint: disable=broad-except
                self._miss(f"{peer.name}, {what}", error)
        return ready
