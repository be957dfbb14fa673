#!/usr/bin/env python3
"""The HTTP server layer as a client sees it, through the demo server."""
# timeout: 300

import concurrent.futures
import hashlib
import os
import signal
import socket
import ssl
import subprocess
import tempfile

from harness import BUILD, Program, Reader, case, main, read_all, request, until

ROOT = tempfile.mkdtemp(prefix="osb-http-")
BIG = os.urandom(1 << 20) * 8
with open(os.path.join(ROOT, "big"), "wb") as f:
    f.write(BIG)
with open(os.path.join(ROOT, "empty"), "wb") as f:
    pass

demo = Program("http-demo", "--port", "0", "--root", ROOT, "--head-timeout-ms", "700",
               "--body-timeout-ms", "700", "--idle-timeout-ms", "1500",
               "--write-timeout-ms", "1500", "--max-connections", "300")


def fnv(data):
    h = 0xcbf29ce484222325
    for byte in data:
        h = ((h ^ byte) * 0x100000001b3) & 0xffffffffffffffff
    return f"{h:016x}"


@case
def answers_have_date_and_length():
    r = request(demo, "GET", "/")
    assert (r.status, r.body, r.get("content-length")) == (200, b"hello\n", "6")
    assert r.get("date").endswith("GMT")
    assert r.get("connection") is None


@case
def connection_is_kept_and_requests_are_answered_in_order():
    with demo.connect() as s:
        reader = Reader(s)
        for i in range(100):
            s.sendall(b"GET /param/%d HTTP/1.1\r\nHost: x\r\n\r\n" % i)
            assert reader.reply().body == b"%d" % i


@case
def pipelined_requests_are_answered_in_order():
    with demo.connect() as s:
        s.sendall(b"".join(b"GET /param/%d HTTP/1.1\r\nHost: x\r\n\r\n" % i for i in range(500)))
        reader = Reader(s)
        for i in range(500):
            assert reader.reply().body == b"%d" % i


@case
def a_slow_answer_holds_the_pipelined_ones_back():
    with demo.connect() as s:
        s.sendall(b"GET /slow HTTP/1.1\r\nHost: x\r\n\r\nGET /param/2 HTTP/1.1\r\nHost: x\r\n\r\n")
        until(lambda: request(demo, "POST", "/release").body == b"1\n", "the slow request arrived")
        reader = Reader(s)
        assert reader.reply().body == b"released\n"
        assert reader.reply().body == b"2"


@case
def bytes_may_come_one_at_a_time():
    with demo.connect() as s:
        for byte in b"POST /echo-small HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nhello":
            s.sendall(bytes([byte]))
        assert Reader(s).reply().body == b"hello"


@case
def connection_close_is_obeyed():
    with demo.connect() as s:
        s.sendall(b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        reader = Reader(s)
        assert reader.reply().get("connection") == "close"
        assert reader.to_eof() == b""


@case
def http_1_0_closes_unless_asked():
    with demo.connect() as s:
        s.sendall(b"GET /events?n=2 HTTP/1.0\r\n\r\n")
        r = Reader(s).reply()
        assert r.get("transfer-encoding") is None and r.body == b'{"n":0}\n\n{"n":1}\n\n'
    with demo.connect() as s:
        s.sendall(b"GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n")
        reader = Reader(s)
        assert reader.reply().get("connection") == "keep-alive"
        s.sendall(b"GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n")
        assert reader.reply().status == 200


@case
def head_has_the_length_and_no_body():
    with demo.connect() as s:
        s.sendall(b"HEAD /bytes/1000 HTTP/1.1\r\nHost: x\r\n\r\nGET / HTTP/1.1\r\nHost: x\r\n\r\n")
        reader = Reader(s)
        assert reader.reply(to_head=True).get("content-length") == "1000"
        assert reader.reply().body == b"hello\n"


@case
def chunked_bodies_both_ways():
    data = os.urandom(100000)
    with demo.connect() as s:
        s.sendall(b"POST /echo HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n")
        at = 0
        for size in (1, 2, 3, 1000, 65536, 33458):
            s.sendall(b"%x\r\n" % size + data[at:at + size] + b"\r\n")
            at += size
        s.sendall(b"0\r\n\r\n")
        reader = Reader(s)
        assert reader.reply().body == data
        s.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        assert reader.reply().body == b"hello\n"


@case
def expect_continue_is_answered_when_the_body_is_wanted():
    with demo.connect() as s:
        s.sendall(b"POST /upload HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\n"
                  b"Content-Length: 5\r\n\r\n")
        reader = Reader(s)
        assert reader.reply().status == 100
        s.sendall(b"hello")
        assert b'"bytes":5' in reader.reply().body


@case
def expect_continue_is_not_answered_when_the_body_is_refused():
    with demo.connect() as s:
        s.sendall(b"POST /nowhere HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\n"
                  b"Content-Length: 5\r\n\r\n")
        r = Reader(s).reply()
        assert (r.status, r.get("connection")) == (404, "close")


@case
def an_unread_body_does_not_spoil_the_connection():
    with demo.connect() as s:
        s.sendall(b"POST /nowhere HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n" + b"x" * 1000 +
                  b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        reader = Reader(s)
        assert reader.reply().status == 404
        assert reader.reply().body == b"hello\n"


@case
def a_large_unread_body_gets_its_answer_and_the_close():
    with demo.connect() as s:
        s.sendall(b"POST /nowhere HTTP/1.1\r\nHost: x\r\nContent-Length: 100000000\r\n\r\n")
        try:
            for _ in range(64):
                s.sendall(b"x" * 65536)
        except OSError:
            pass  # it may close on us, but the answer must still be readable
        r = Reader(s).reply()
        assert (r.status, r.get("connection")) == (404, "close")


@case
def repeated_query_keys_plus_and_percent():
    r = request(demo, "GET", "/query?k=a+b&other=1&k=%C3%BC&k=&k")
    assert r.body == "a b\nü\n\n\n".encode()


@case
def path_parameters_are_decoded_once():
    assert request(demo, "GET", "/param/a%20b%2Fc%2541").body == b"a b/c%41"
    assert request(demo, "GET", "/param/%zz").status == 400
    assert request(demo, "GET", "/param/%00").status == 400
    assert request(demo, "GET", "/%70aram/x").body == b"x"


@case
def unknown_path_and_method():
    assert request(demo, "GET", "/nowhere").status == 404
    r = request(demo, "DELETE", "/upload")
    assert (r.status, r.get("allow")) == (405, "POST, PUT")


@case
def downloads_are_complete():
    r = request(demo, "GET", "/file/big")
    assert hashlib.sha256(r.body).digest() == hashlib.sha256(BIG).digest()
    assert request(demo, "GET", "/file/empty").body == b""
    assert request(demo, "GET", "/file/../etc/passwd").status == 404


@case
def ranges():
    size = len(BIG)
    for text, want in (("bytes=0-4", BIG[:5]), ("bytes=5-", BIG[5:]), ("bytes=-3", BIG[-3:]),
                       (f"bytes=0-{size * 2}", BIG)):
        r = request(demo, "GET", "/file/big", fields=[("Range", text)])
        assert r.status == 206 and r.body == want, text
    r = request(demo, "GET", "/file/big", fields=[("Range", f"bytes={size}-")])
    assert (r.status, r.get("content-range")) == (416, f"bytes */{size}")


@case
def a_body_beyond_the_cap_is_413():
    r = request(demo, "POST", "/echo-small", body=b"x" * 70000)
    assert r.status == 413
    with demo.connect() as s:
        s.sendall(b"POST /echo-small HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n")
        s.sendall(b"11170\r\n" + b"x" * 0x11170 + b"\r\n")
        assert Reader(s).reply().status == 413


@case
def a_long_target_is_414_and_a_large_head_431():
    assert request(demo, "GET", "/" + "x" * 9000).status == 414
    assert request(demo, "GET", "/", fields=[("X", "y" * 40000)]).status == 431
    assert request(demo, "GET", "/", fields=[(f"X{i}", "y") for i in range(200)]).status == 431


@case
def a_slow_head_is_408():
    with demo.connect() as s:
        s.sendall(b"GET / HTTP/1.1\r\nHo")
        reader = Reader(s)
        assert reader.reply().status == 408
        assert reader.to_eof() == b""


@case
def dripping_does_not_extend_the_heads_time():
    with demo.connect() as s:
        s.settimeout(0.1)
        data = b""
        s.sendall(b"GET / HTTP/1.1\r\nX: ")
        for _ in range(200):
            try:
                data = s.recv(4096)
                break
            except socket.timeout:
                s.sendall(b"y")
        assert b" 408 " in data


@case
def a_slow_body_is_408():
    with demo.connect() as s:
        s.sendall(b"POST /echo-small HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\nabc")
        assert Reader(s).reply().status == 408


@case
def an_idle_connection_is_closed_without_a_word():
    with demo.connect() as s:
        s.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        reader = Reader(s)
        reader.reply()
        assert reader.to_eof() == b""
    with demo.connect() as s:
        assert read_all(s) == b""


@case
def a_client_that_never_reads_is_cut_and_costs_little():
    before, fds = demo.rss_kib(), demo.fds()
    with demo.connect() as s:
        s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        s.sendall(b"GET /bytes/10000000000?chunked HTTP/1.1\r\nHost: x\r\n\r\n")
        until(lambda: demo.fds() > fds, "the connection is taken")
        until(lambda: demo.fds() <= fds, "the connection is cut")
    assert demo.rss_kib() - before < 2048


@case
def a_half_closed_client_gets_its_answer():
    with demo.connect() as s:
        s.sendall(b"GET /slow HTTP/1.1\r\nHost: x\r\n\r\n")
        s.shutdown(socket.SHUT_WR)
        until(lambda: request(demo, "POST", "/release").body == b"1\n", "the slow request arrived")
        assert Reader(s).reply().body == b"released\n"


@case
def a_large_answer_reaches_who_takes_its_time():
    size = 12 << 20
    want = (bytes(range(97, 123)) * (size // 26 + 1))[:size]
    with Program("http-demo", "--port", "0", "--head-timeout-ms", "300", "--linger-timeout-ms", "50",
                 "--idle-timeout-ms", "50") as slow:
        for fields, half in (("", False), ("", True), ("Connection: close\r\n", False)):
            with socket.socket() as s, slow.connect() as clock:
                s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
                s.connect(slow.address)
                s.settimeout(30)
                s.sendall(f"GET /whole/{size} HTTP/1.1\r\nHost: x\r\n{fields}\r\n".encode())
                if half:
                    s.shutdown(socket.SHUT_WR)
                clock.sendall(b"GET")  # refused when more time has passed than an idle connection has
                assert Reader(clock).reply().status == 408
                assert Reader(s).reply().body == want, (fields, half)


@case
def a_vanished_client_is_forgotten():
    fds = demo.fds()
    for _ in range(20):
        s = demo.connect()
        s.sendall(b"POST /upload HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\nabc")
        s.close()
    until(lambda: demo.fds() <= fds, "descriptors are back")


@case
def the_connection_cap_is_503():
    idle = [demo.connect() for _ in range(300)]
    try:
        with demo.connect() as s:
            r = Reader(s).reply()
            assert (r.status, r.get("retry-after")) == (503, "1")
    finally:
        for s in idle:
            s.close()
    until(lambda: demo.fds() < 50, "the connections are gone")
    assert request(demo, "GET", "/").status == 200


@case
def uploads_are_counted_exactly():
    for size in (0, 1, 18 * 1024 - 1, 18 * 1024, 18 * 1024 + 1, 1 << 20):
        data = os.urandom(size)
        r = request(demo, "PUT", "/upload", body=data)
        assert r.body == b'{"bytes":%d,"fnv":"%s"}' % (size, fnv(data).encode()), size


@case
def multipart_as_a_stream():
    data = os.urandom(300000)
    body = (b'--b\r\nContent-Disposition: form-data; name="one"\r\n\r\n1\r\n'
            b'--b\r\nContent-Disposition: form-data; name=two; filename="x"\r\n\r\n' + data +
            b'\r\n--b--\r\n')
    kind = [("Content-Type", "multipart/form-data; boundary=b")]
    assert request(demo, "POST", "/multipart", body, kind).body == b"one 1\ntwo 300000\n"
    assert request(demo, "POST", "/multipart", body[:-6], kind).status == 400
    assert request(demo, "POST", "/multipart", body).status == 400


@case
def many_clients_at_once():
    def one(i):
        with demo.connect() as s:
            reader = Reader(s)
            for n in range(20):
                s.sendall(b"POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 9999\r\n\r\n" +
                          bytes([i]) * 9999)
                assert reader.reply().body == bytes([i]) * 9999, n
        return True

    with concurrent.futures.ThreadPoolExecutor(32) as pool:
        assert all(pool.map(one, range(64)))


@case
def upload_memory_does_not_grow_with_the_upload():
    def send(mib):
        with demo.connect() as s:
            s.sendall(b"PUT /upload HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % (mib << 20))
            for _ in range(mib):
                s.sendall(b"\0" * (1 << 20))
            assert b'"bytes":%d,' % (mib << 20) in Reader(s).reply().body

    send(4)
    before = demo.peak_rss_kib()
    send(64)
    assert demo.peak_rss_kib() - before < 1024


@case
def runs_out_of_descriptors_and_recovers():
    with Program("http-demo", "--port", "0", preexec_fn=lambda: limit_files(40)) as small:
        crowd = []
        refused = 0
        for _ in range(60):
            s = small.connect()
            s.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
            try:
                status = Reader(s).reply().status
            except (EOFError, ConnectionResetError):
                status = 503
            refused += status == 503
            crowd.append(s)
        assert 0 < refused < 60
        for s in crowd:
            s.close()
        until(lambda: small.fds() < 20, "descriptors are back")
        assert request(small, "GET", "/").status == 200


def limit_files(n):
    import resource  # pylint: disable=import-outside-toplevel
    resource.setrlimit(resource.RLIMIT_NOFILE, (n, n))


@case
def drains_gracefully():
    with Program("http-demo", "--port", "0") as server:
        busy, idle = server.connect(), server.connect()
        busy.sendall(b"GET /slow HTTP/1.1\r\nHost: x\r\n\r\n")
        idle.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        Reader(idle).reply()
        with server.connect() as releaser:
            releaser.sendall(b"POST /release HTTP/1.1\r\nHost: x\r\n")  # a head on its way
            until(lambda: all_read(server), "the server has taken it all")
            server.signal(signal.SIGTERM)
            assert read_all(idle) == b""  # idle ones go at once
            try:
                server.connect().close()
                raise AssertionError("still listening")
            except ConnectionRefusedError:
                pass
            releaser.sendall(b"\r\n")
            r = Reader(releaser).reply()
            assert (r.body, r.get("connection")) == (b"1\n", "close")
            r = Reader(busy).reply()
            assert (r.body, r.get("connection")) == (b"released\n", "close")
        assert server.wait() == 0


def all_read(server):
    """Has the server taken everything off its sockets?"""
    port = f":{server.port:04X}"
    with open("/proc/net/tcp", encoding="ascii") as table:
        rows = [line.split() for line in table if port in line.split()[1]]
    return all(row[4].endswith(":00000000") for row in rows if row[3] == "01")


@case
def tls_behind_the_same_face():
    cert, key = os.path.join(ROOT, "cert.pem"), os.path.join(ROOT, "key.pem")
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt",
                    "ec_paramgen_curve:P-256", "-nodes", "-days", "2", "-subj", "/CN=localhost",
                    "-keyout", key, "-out", cert], check=True, stderr=subprocess.DEVNULL)
    with Program("http-demo", "--port", "0", "--root", ROOT, "--cert", cert, "--key", key) as tls:
        context = ssl.create_default_context(cafile=cert)
        context.check_hostname = False
        context.set_alpn_protocols(["http/1.1"])
        with context.wrap_socket(tls.connect()) as s:
            assert s.selected_alpn_protocol() == "http/1.1"
            reader = Reader(s)
            s.sendall(b"GET /file/big HTTP/1.1\r\nHost: x\r\n\r\n")
            assert reader.reply().body == BIG
            s.sendall(b"POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 300000\r\n\r\n" +
                      b"x" * 300000)
            assert reader.reply().body == b"x" * 300000
            for i in range(50):
                s.sendall(b"GET /param/%d HTTP/1.1\r\nHost: x\r\n\r\n" % i)
                assert reader.reply().body == b"%d" % i
        with tls.connect() as s:  # plain text on a TLS port
            s.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
            assert b"200 OK" not in read_all(s)
        with context.wrap_socket(tls.connect()) as s:
            s.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
            assert Reader(s).reply().status == 200


@case
def leaves_cleanly():
    assert demo.stop() == 0


if not os.path.exists(os.path.join(BUILD, "http-demo")):
    raise SystemExit("build the tree first: http-demo is missing")
main()
