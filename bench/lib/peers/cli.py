"""What docker and podman have in common: their command line."""

import os

from report import BUILD

from .common import Peer, Way, drain, pour, quiet

IDLE = ["tail", "-f", "/dev/null"]


class Cli(Peer):
    """Sandboxes have no network, which is its fastest way; ours have one."""

    program = None  # and the options that all its commands take
    env = None
    options = []  # of `run`
    image = []
    remove = ["rm", "-f"]
    published = "bridge"  # the network that ports are published from

    def _call(self, *args):
        return quiet([*self.program, *args], env=self.env)

    def _run(self, *args, argv, network="none"):
        return self._call("run", *args, "--network", network, *self.options, *self.image, *argv)

    def once(self, argv):
        return self._run("--rm", argv=argv)

    def create(self):
        return self._run("-d", argv=IDLE)

    def run(self, sandbox, argv):
        return self._call("exec", sandbox, *argv)

    def delete(self, sandbox):
        self._call(*self.remove, sandbox)

    def put(self, sandbox, path, size):
        return pour([*self.program, "cp", "-", f"{sandbox}:{os.path.dirname(path)}"], os.path.basename(path), size,
                    env=self.env)

    def get(self, sandbox, path, size):
        return drain([*self.program, "cp", f"{sandbox}:{path}", "-"], size, env=self.env)

    def open(self, ports):
        execd = os.path.realpath(os.path.join(BUILD, "execd"))
        sandbox = self._run("-d", "-v", f"{execd}:/opt/execd:ro",
                            *(part for port in ports for part in ("-p", f"127.0.0.1::{port}")),
                            argv=["/opt/execd", "--port", "44772"], network=self.published)
        said = {port: self._call("port", sandbox, str(port)) for port in ports}
        return {port: Way(("127.0.0.1", int(words.rsplit(":", 1)[1])), "", {}) for port, words in said.items()}
