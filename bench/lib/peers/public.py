"""The public server from PyPI, on Docker."""

import json
import os
import socket
import subprocess
import sys
import urllib.parse

import osb
from inside import Inside
from report import BUILD, ROOT

from .common import LIMIT, Served, Way, end, wait_for
from .docker import IMAGE

sys.path.insert(0, os.path.join(ROOT, "tests", "e2e"))

import clients  # noqa: E402

PACKAGE = "opensandbox-server==1.1.1"
EXECD_IMAGE = "bench-execd:1"


class Public(Served):
    """Its daemon for the inside comes only in an image that would have to be pulled, so it is given ours: what is
    measured is its control plane and Docker. Its client asks until the daemon answers."""

    name = "public server on docker"

    def __init__(self, directory, daemon):
        python = clients.python(PACKAGE) if os.environ.get("OSB_BENCH_PEERS") == "1" else clients.installed(PACKAGE)
        if not python:
            raise RuntimeError(f"{PACKAGE} from PyPI is not in the cache (make bench PEERS=1 fetches it)")
        base = os.path.join(directory, "public")
        os.makedirs(base)
        self.daemon, self.processes = daemon, daemon.processes
        self._execd_image(base)
        with socket.socket() as s:
            s.bind(("127.0.0.1", 0))
            self.address = s.getsockname()
        config = os.path.join(base, "config.toml")
        with open(config, "w", encoding="ascii") as out:
            out.write(f'[server]\nhost = "127.0.0.1"\nport = {self.address[1]}\napi_key = "{osb.KEY}"\n'
                      f'[log]\nlevel = "ERROR"\n[runtime]\ntype = "docker"\nexecd_image = "{EXECD_IMAGE}"\n'
                      f'[store]\ntype = "sqlite"\npath = "{base}/db"\n'
                      '[docker]\nnetwork_mode = "bridge"\n[ingress]\nmode = "direct"\n')
        self.body = {**osb.CREATE, "image": {"uri": IMAGE}}
        self.proc = subprocess.Popen([os.path.join(os.path.dirname(python), "opensandbox-server"), "--config", config],
                                     env=dict(daemon.env, HOME=base), stdout=subprocess.DEVNULL,
                                     stderr=subprocess.DEVNULL)
        try:
            wait_for(lambda: socket.socket().connect_ex(self.address) == 0, "the public server listens")
            self.once(["true"])
        except Exception:
            self.stop()
            raise

    def _execd_image(self, base):
        script = os.path.join(base, "bootstrap.sh")
        with open(script, "w", encoding="ascii") as out:
            out.write('#!/bin/sh\nexec "${EXECD:-/opt/opensandbox/execd}" --port 44772 -- "$@"\n')
        os.chmod(script, 0o755)
        docker = self.daemon.docker
        docker("create", "--name", "made", IMAGE, "true")
        for source, target in ((os.path.realpath(os.path.join(BUILD, "execd")), "execd"), (script, "bootstrap.sh")):
            docker("cp", source, f"made:/{target}")
        docker("commit", "made", EXECD_IMAGE)
        docker("rm", "made")

    def _client(self):
        return osb.Client(self.address, self.body)

    def create(self):
        """Its id and its daemon, which answers."""
        client = self._client()
        sandbox = client.create()
        data = client.call("GET", f"/v1/sandboxes/{sandbox}/endpoints/44772", want=200)
        target = urllib.parse.urlsplit("http://" + json.loads(data)["endpoint"])
        inside = Inside(Way((target.hostname, target.port), target.path, osb.HEADERS))
        client.close()
        wait_for(inside.answers, "its daemon answers", LIMIT, pause=0.002)
        return sandbox, inside

    def delete(self, sandbox):
        """On a connection of its own, because the server soon closes those that are idle."""
        sandbox[1].close()
        client = self._client()
        client.delete(sandbox[0])
        client.close()

    def create_and_delete(self):
        client = self._client()
        return osb.timed(lambda: client.delete(client.create()))

    def open(self, ports):
        """Through the server's own proxy."""
        sandbox = self.create()[0]
        return {port: Way(self.address, f"/sandboxes/{sandbox}/proxy/{port}", {}) for port in ports}

    def daemons(self):
        return {**self.daemon.daemons(), "public server": self.proc.pid}

    def stop(self):
        end(self.proc)
