"""Our own server by the words of a peer, so that both are measured by the same lines."""


import memory
from inside import Inside
from report import OURS

from .common import Served, Way


class Ours(Served):
    name = OURS

    def __init__(self, server):
        self.server, self.client, self.tree = server, server.client(), server.pids

    def _ways(self, sandbox, ports):
        headers = {key: value for key, value in self.client.token(sandbox).items() if key != "Content-Type"}
        return {port: Way(self.server.address, f"/sandboxes/{sandbox}/proxy/{port}", headers) for port in ports}

    def create(self):
        sandbox = self.client.create()
        return sandbox, Inside(self._ways(sandbox, [44772])[44772])

    def delete(self, sandbox):
        sandbox[1].close()
        self.client.delete(sandbox[0])

    def open(self, ports):
        return self._ways(self.client.create(), ports)

    def processes(self):
        return memory.tree(self.tree["runner"])[1:]

    def daemons(self):
        return self.tree
