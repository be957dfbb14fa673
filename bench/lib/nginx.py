"""nginx as a peer: a file server, and a proxy in front of something else."""

import os
import re
import socket
import subprocess

from peers.common import need, wait_for

BASE = """
daemon off; master_process off; worker_processes 1; pid {dir}/pid; error_log {dir}/error.log; user root;
worker_rlimit_nofile 20000;
events {{ worker_connections 15000; }}
http {{
  access_log off; sendfile on; tcp_nopush on; tcp_nodelay on; default_type text/plain;
  keepalive_timeout 600; keepalive_requests 1000000000; client_max_body_size 0;
  client_body_temp_path {dir}/b; proxy_temp_path {dir}/p; fastcgi_temp_path {dir}/f;
  uwsgi_temp_path {dir}/u; scgi_temp_path {dir}/s;
  {body}
}}
"""


def config(directory, body):
    return BASE.format(dir=directory, body=body)


def serve(port, inside, address="127.0.0.1"):
    return f"server {{ listen {address}:{port} backlog=4096; {inside} }}"


def proxy(port, upstream):
    """Streams bodies both ways and keeps its connections, as our gateway does."""
    return (f"upstream u {{ server 127.0.0.1:{upstream}; keepalive 128; keepalive_requests 1000000000; }}\n" + serve(
        port, 'location / { proxy_pass http://u; proxy_http_version 1.1; proxy_set_header Connection ""; '
              "proxy_request_buffering off; proxy_max_temp_file_size 0; proxy_buffers 16 64k; "
              "proxy_buffer_size 64k; proxy_busy_buffers_size 128k; proxy_set_header Host bench; }"))


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class Nginx:
    """One worker; `make` is given a free port and makes the body of the configuration."""

    def __init__(self, directory, make):
        need("nginx")
        os.makedirs(directory, exist_ok=True)
        self.port = free_port()
        self.address = ("127.0.0.1", self.port)
        path = os.path.join(directory, "nginx.conf")
        with open(path, "w", encoding="ascii") as out:
            out.write(config(directory, make(self.port)))
        self.proc = subprocess.Popen(["nginx", "-c", path])
        wait_for(lambda: socket.socket().connect_ex(self.address) == 0, "nginx listens")

    def stop(self):
        self.proc.terminate()
        self.proc.wait()


def wrk(url, seconds, connections, headers=()):
    """(requests per second, median latency in ms); RuntimeError when an answer was not 2xx."""
    need("wrk")
    argv = ["wrk", "-t1", f"-c{connections}", f"-d{seconds}", "--timeout", "30", "--latency",
            *(part for k, v in dict(headers).items() for part in ("-H", f"{k}: {v}")), url]
    out = subprocess.run(argv, stdout=subprocess.PIPE, text=True, check=True, timeout=seconds + 60).stdout
    if "Non-2xx" in out or "Socket errors" in out:
        raise RuntimeError(f"{url}: {out}")
    value, unit = re.search(r"50%\s+([\d.]+)(us|ms|s)", out).groups()
    return (float(re.search(r"Requests/sec:\s+([\d.]+)", out).group(1)),
            float(value) * {"us": 0.001, "ms": 1, "s": 1000}[unit])
