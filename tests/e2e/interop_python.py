"""Run by test_interop with the demo's URL and a directory: httpx, websockets and http.client."""

import asyncio
import hashlib
import http.client
import os
import sys
import urllib.parse

import httpx
import websockets

URL, ROOT = sys.argv[1], sys.argv[2]
HOST = urllib.parse.urlsplit(URL).netloc
BIG = open(os.path.join(ROOT, "big"), "rb").read()


def pieces(data, size=50000):
    for at in range(0, len(data), size):
        yield data[at:at + size]


def ok(name, condition):
    print(("ok " if condition else "not ok ") + name, flush=True)


def http_client():
    c = http.client.HTTPConnection(HOST, timeout=30)
    for _ in range(5):
        c.request("GET", "/")
        r = c.getresponse()
        assert r.read() == b"hello\n" and r.status == 200
    ok("http.client keep-alive", c.sock is not None)
    c.request("POST", "/echo", body=pieces(BIG), encode_chunked=True,
              headers={"Transfer-Encoding": "chunked"})
    ok("http.client streaming upload and download", c.getresponse().read() == BIG)
    c.request("GET", "/events?n=1000")
    r = c.getresponse()
    lines = [line for line in r if line.strip()]
    ok("http.client event stream", len(lines) == 1000 and lines[-1] == b'{"n":999}\n')
    c.request("PUT", "/upload", body=BIG, headers={"Expect": "100-continue"})
    ok("http.client expect", b'"bytes":%d' % len(BIG) in c.getresponse().read())


async def with_httpx():
    async with httpx.AsyncClient(base_url=URL, timeout=30) as c:
        answers = await asyncio.gather(*(c.get(f"/param/{i}") for i in range(50)))
        ok("httpx concurrent", [a.text for a in answers] == [str(i) for i in range(50)])

        async def body():
            for piece in pieces(BIG):
                yield piece

        r = await c.post("/echo", content=body())
        ok("httpx streaming upload", r.content == BIG)
        digest = hashlib.sha256()
        async with c.stream("GET", "/file/big") as r:
            async for piece in r.aiter_bytes():
                digest.update(piece)
        ok("httpx streaming download", digest.digest() == hashlib.sha256(BIG).digest())
        seen = []
        async with c.stream("GET", "/events?n=500") as r:
            async for line in r.aiter_lines():
                if line:
                    seen.append(line)
        ok("httpx event stream", len(seen) == 500)
        r = await c.post("/multipart", files={"a": ("ü.bin", BIG), "b": (None, "x")})
        ok("httpx multipart", r.text == f"a {len(BIG)}\nb 1\n")
        async with c.stream("GET", "/bytes/100000000") as r:
            async for _ in r.aiter_bytes():
                break  # leaves early
        ok("httpx leaves early", (await c.get("/")).status_code == 200)


async def with_websockets():
    url = URL.replace("http", "ws", 1) + "/ws-echo"
    async with websockets.connect(url, max_size=8 << 20) as ws:
        await ws.send("grüße")
        ok("websockets text", await ws.recv() == "grüße")
        await ws.send(BIG[:3 << 20])
        ok("websockets binary", await ws.recv() == BIG[:3 << 20])
        await ws.send([b"a" * 1000, b"b" * 1000, b"c" * 1000])
        ok("websockets fragments", await ws.recv() == b"a" * 1000 + b"b" * 1000 + b"c" * 1000)
        await asyncio.wait_for(await ws.ping(), 30)
        ok("websockets ping", True)
        for i in range(2000):
            await ws.send(str(i))
        ok("websockets many", [await ws.recv() for _ in range(2000)] == [str(i) for i in range(2000)])
    ok("websockets close handshake", ws.close_code == 1000)
    async with websockets.connect(url) as ws:
        await ws.send(b"x" * (5 << 20))
        try:
            await ws.recv()
            ok("websockets size cap", False)
        except websockets.ConnectionClosed as closed:
            ok("websockets size cap", closed.rcvd is not None and closed.rcvd.code == 1009)


http_client()
asyncio.run(with_httpx())
asyncio.run(with_websockets())
