#!/usr/bin/env python3
"""Uploads to and downloads from execd, as a client that knows only HTTP sees them."""
# timeout: 600

import hashlib
import http.client
import json
import os
import pwd
import socket
import stat
import struct
import subprocess
import threading

from execdlib import empty_ok, error
from fileslib import FORM, call, end, execd, form, fresh, leftovers, pair, put, query, read, upload
from harness import DEADLINE, Reader, case, sanitized, until

# --- POST /files/upload ---

@case
def upload_sizes_come_back_equal():
    d = fresh()
    for size in (0, 1, 18 * 1024 - 1, 18 * 1024, 18 * 1024 + 1, 65535, 65536, 65537, 1 << 20):
        data = os.urandom(size)
        empty_ok(upload(pair(f"{d}/f{size}", data)))
        assert read(f"{d}/f{size}") == data, size
        got = call("GET", "/files/download", path=f"{d}/f{size}")
        assert got.status == 200 and got.body == data, size
    assert leftovers(d) == []


@case
def upload_and_download_64_mib_in_little_memory():
    d = fresh()
    data = os.urandom(1 << 20) * 64
    want = hashlib.sha256(data).hexdigest()
    before = execd.peak_rss_kib()
    empty_ok(upload(pair(d + "/big", data)))
    assert hashlib.sha256(read(d + "/big")).hexdigest() == want
    conn = http.client.HTTPConnection("127.0.0.1", execd.port, timeout=DEADLINE)
    conn.request("GET", "/files/download?" + query(path=d + "/big"))
    assert hashlib.sha256(conn.getresponse().read()).hexdigest() == want
    conn.close()
    assert execd.peak_rss_kib() - before < 16 << 10
    os.unlink(d + "/big")


@case
def upload_contents_that_look_like_delimiters():
    d = fresh()
    tricky = [b"\r\n--Xy", b"--XyZ\r\n", b"\r\n--XyZ", b"\r\n", b"\r\n--XyZa", b"\r\n--XyZ-",
              b"\r", b"-", b"\r\n--XyYZ\r\n\r\n--Xy"]
    for data in tricky:
        if b"\r\n--XyZ" in data or data.startswith(b"--XyZ\r\n"):
            continue  # these would really be one
        for pad in (0, 65500, 65535):
            empty_ok(upload(pair(d + "/t", b"." * pad + data)))
            assert read(d + "/t") == b"." * pad + data, data


@case
def upload_modes_and_owners():
    d = fresh()
    empty_ok(upload(pair(d + "/new", b"1")))
    umask = os.umask(0)
    os.umask(umask)
    assert stat.S_IMODE(os.stat(d + "/new").st_mode) == 0o777 & ~umask
    empty_ok(upload(pair(d + "/m", b"1", mode=4750, owner="daemon", group="778")))
    st = os.stat(d + "/m")
    assert stat.S_IMODE(st.st_mode) == 0o4750
    assert (st.st_uid, st.st_gid) == (pwd.getpwnam("daemon").pw_uid, 778)
    empty_ok(upload(pair(d + "/n", b"1", mode=755, owner=None, group=None)))
    assert stat.S_IMODE(os.stat(d + "/n").st_mode) == 0o755


@case
def upload_over_an_existing_file_keeps_its_traits():
    d = fresh()
    put(d + "/a", b"old", 0o640)
    os.chown(d + "/a", 777, 778)
    os.link(d + "/a", d + "/hard")
    empty_ok(upload(pair(d + "/a", b"new")))
    st = os.stat(d + "/a")
    assert (st.st_uid, st.st_gid, stat.S_IMODE(st.st_mode)) == (777, 778, 0o640)
    assert read(d + "/a") == b"new" and read(d + "/hard") == b"old"  # exchanged, not overwritten


@case
def attributes_are_kept():
    d = fresh()
    put(d + "/a", b"old")
    try:
        os.setxattr(d + "/a", "user.note", b"kept")
    except OSError:
        print("skip attributes_are_kept not on this file system")
        return
    empty_ok(upload(pair(d + "/a", b"new")))
    assert os.getxattr(d + "/a", "user.note") == b"kept"
    empty_ok(call("POST", "/files/replace", {d + "/a": {"old": "new", "new": "other"}}))
    assert os.getxattr(d + "/a", "user.note") == b"kept" and read(d + "/a") == b"other"


@case
def upload_makes_parents():
    d = fresh()
    empty_ok(upload(pair(d + "/x/y/z/f", b"1")))
    assert read(d + "/x/y/z/f") == b"1"
    assert stat.S_IMODE(os.stat(d + "/x/y").st_mode) == 0o755


@case
def upload_through_links():
    d = fresh()
    put(d + "/real/a", b"old")
    os.symlink("real/a", d + "/l1")
    os.symlink(d + "/l1", d + "/l2")
    os.symlink("real/new", d + "/dangling")
    os.symlink("real", d + "/dir")
    empty_ok(upload(pair(d + "/l2", b"via links")))
    assert read(d + "/real/a") == b"via links" and os.path.islink(d + "/l2")
    empty_ok(upload(pair(d + "/dangling", b"made")))
    assert read(d + "/real/new") == b"made" and os.path.islink(d + "/dangling")
    empty_ok(upload(pair(d + "/dir/b", b"inside")))
    assert read(d + "/real/b") == b"inside"
    os.symlink("loop2", d + "/loop1")
    os.symlink("loop1", d + "/loop2")
    error(upload(pair(d + "/loop1", b"x")), 500, "RUNTIME_ERROR")


@case
def upload_refuses_what_is_no_file():
    d = fresh()
    os.mkfifo(d + "/fifo")
    os.mkdir(d + "/dir")
    os.symlink("/dev/null", d + "/null")
    s = socket.socket(socket.AF_UNIX)
    s.bind(d + "/sock")
    for path, words in (("/fifo", "FIFO"), ("/dir", "directory"), ("/dir/", "directory"),
                        ("/null", "device"), ("/sock", "socket"), ("/dir/..", "directory")):
        error(upload(pair(d + path, b"x")), 400, "INVALID_FILE", words)
    s.close()
    error(upload(pair("/", b"x")), 400, "INVALID_FILE")


@case
def upload_in_place_where_it_is_a_mount_point():
    d = fresh()
    put(d + "/src", b"old contents"), put(d + "/mounted", b"")
    if subprocess.run(["mount", "--bind", d + "/src", d + "/mounted"], check=False).returncode:
        print("skip upload_in_place_where_it_is_a_mount_point cannot mount here")
        return
    try:
        empty_ok(upload(pair(d + "/mounted", b"new")))
        assert read(d + "/mounted") == b"new" and read(d + "/src") == b"new"
        assert leftovers(d) == []
    finally:
        subprocess.run(["umount", d + "/mounted"], check=True)


@case
def upload_several_in_one_form():
    d = fresh()
    parts = []
    for i in range(200):  # more than are held back
        parts += pair(f"{d}/many/{i}", str(i).encode() * 100)
    empty_ok(upload(parts))
    assert sorted(os.listdir(d + "/many"), key=int) == [str(i) for i in range(200)]
    assert all(read(f"{d}/many/{i}") == str(i).encode() * 100 for i in range(200))


@case
def upload_in_any_order_of_parts():
    d = fresh()
    (m1, f1), (m2, f2) = pair(d + "/1", b"one"), pair(d + "/2", b"two" * 100000)
    for parts in ([f1, m1, f2, m2], [m1, m2, f1, f2], [f1, f2, m1, m2], [f1, m1, m2, f2]):
        for path in (d + "/1", d + "/2"):
            if os.path.exists(path):
                os.unlink(path)
        empty_ok(upload(parts))
        assert (read(d + "/1"), read(d + "/2")) == (b"one", b"two" * 100000)


@case
def upload_dialects_of_headers():
    d = fresh()
    meta = json.dumps({"path": d + "/a"}).encode()
    dialects = [
        ('Content-Disposition: form-data; name="metadata"', "Content-Disposition: form-data; "
         'name="file"; filename="a"'),
        ("Content-Disposition: form-data; name=metadata; filename=metadata; "
         "filename*=utf-8''metadata", "Content-Disposition: form-data; name=file; filename=a; "
         "filename*=utf-8''%e2%82%ac"),
        ('content-disposition: form-data; filename="metadata"; name="metadata"\r\n'
         "Content-Type: application/json\r\nContent-Length: %d" % len(meta),
         'Content-Disposition: form-data; name="file"; filename="ü.txt"\r\n'
         "Content-Type: application/octet-stream"),
    ]
    for number, (first, second) in enumerate(dialects):
        data = b"dialect %d" % number
        empty_ok(upload([("metadata", first, meta), ("file", second, data)]))
        assert read(d + "/a") == data
    quoted = [("Content-Type", 'multipart/form-data; boundary="XyZ"')]
    empty_ok(call("POST", "/files/upload", form(pair(d + "/q", b"1")), quoted))
    extra = [("other", None, b"ignored")] + pair(d + "/e", b"2")
    empty_ok(upload(extra))
    assert read(d + "/e") == b"2"


@case
def upload_chunked_in_small_pieces():
    d = fresh()
    body = form(pair(d + "/a", b"pieces" * 1000))
    with execd.connect() as s:
        s.sendall(b"POST /files/upload HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n"
                  b"Content-Type: multipart/form-data; boundary=XyZ\r\n\r\n")
        for at in range(0, len(body), 37):
            piece = body[at:at + 37]
            s.sendall(b"%x\r\n" % len(piece) + piece + b"\r\n")
        s.sendall(b"0\r\n\r\n")
        empty_ok(Reader(s).reply())
    assert read(d + "/a") == b"pieces" * 1000


@case
def upload_expect_continue():
    d = fresh()
    body = form(pair(d + "/a", b"x" * 100000))
    with execd.connect() as s:
        s.sendall(b"POST /files/upload HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\n"
                  b"Content-Type: multipart/form-data; boundary=XyZ\r\n"
                  b"Content-Length: %d\r\n\r\n" % len(body))
        reader = Reader(s)
        assert reader.head().status == 100
        s.sendall(body)
        empty_ok(reader.reply())


@case
def upload_errors_leave_nothing():
    d = fresh()
    target = d + "/made/by/upload/f"
    m, f = pair(target, b"data")
    bad_json = ("metadata", None, b"{")
    cases = [
        (form([f]), "INVALID_FILE_METADATA"),
        (form([m]), "INVALID_FILE_CONTENT"),
        (form([m, f, f]), "INVALID_FILE"),
        (form([m, f, m]), "INVALID_FILE"),
        (form([]), "INVALID_FILE_METADATA"),
        (form([bad_json, f]), "INVALID_FILE_METADATA"),
        (form([m, f, bad_json, f]), "INVALID_FILE_METADATA"),
        (form([("metadata", None, b'{"path":""}'), f]), "INVALID_FILE_METADATA"),
        (form([("metadata", None, b'{}'), f]), "INVALID_FILE_METADATA"),
        (form([("metadata", None, b'{"path":7}'), f]), "INVALID_FILE_METADATA"),
        (form([("metadata", None, b'["x"]'), f]), "INVALID_FILE_METADATA"),
        (form([("metadata", None, b'{"path":"/a\\u0000b"}'), f]), "INVALID_FILE_METADATA"),
        (form([("metadata", None, b'{"path":"' + b"x" * 70000 + b'"}'), f]),
         "INVALID_FILE_METADATA"),
        (form([m, f])[:-8], "INVALID_FILE"),
        (b"no form at all", "INVALID_FILE"),
        (b"", "INVALID_FILE"),
        (b"--XyZ\r\n" + b"A: " + b"x" * 100000, "INVALID_FILE"),
        (b"--XyZ\r\nno colon\r\n\r\n\r\n--XyZ--", "INVALID_FILE"),
        (b"--XyZ\nContent-Disposition: form-data; name=\"file\"\n\nx\n--XyZ--", "INVALID_FILE"),
    ]
    for body, code in cases:
        error(call("POST", "/files/upload", body, FORM), 400, code)
        assert os.listdir(d) == [], (body[:60], os.listdir(d))
    for kind in ("application/json", "multipart/form-data", "multipart/mixed; boundary=XyZ",
                 "multipart/form-data; boundary="):
        error(call("POST", "/files/upload", form([m, f]), [("Content-Type", kind)]), 400,
              "INVALID_FILE")
    error(upload(pair(target, b"x", owner="no-such-user")), 500, "RUNTIME_ERROR")
    error(upload(pair(target, b"x", mode=888)), 500, "RUNTIME_ERROR")
    error(upload(pair(d + "/" + "n" * 300, b"x")), 500, "RUNTIME_ERROR")
    assert os.listdir(d) == []


@case
def upload_cut_off_leaves_nothing():
    d = fresh()
    put(d + "/old", b"old")
    before = execd.fds()
    # a place of its own for each: who comes while another is undone finds directories and does not take them for his
    for place in ("/new{}/place/f", "/old"):
        for n, keep in enumerate((200, 70000, 2 << 20, -4)):
            body = form(pair(d + place.format(n), os.urandom(3 << 20)))
            with execd.connect() as s:
                s.sendall(b"POST /files/upload HTTP/1.1\r\nHost: x\r\n"
                          b"Content-Type: multipart/form-data; boundary=XyZ\r\n"
                          b"Content-Length: %d\r\n\r\n" % len(body) + body[:keep])
    until(lambda: execd.fds() <= before, "descriptors closed")
    until(lambda: os.listdir(d) == ["old"], "nothing left")
    assert read(d + "/old") == b"old"


@case
def upload_is_atomic_for_readers():
    d = fresh()
    contents = [bytes([65 + i]) * 300000 for i in range(2)]
    empty_ok(upload(pair(d + "/a", contents[0])))
    stop, seen = threading.Event(), []

    def look():
        while not stop.is_set():
            data = read(d + "/a")
            if data not in contents:
                seen.append(len(data))

    thread = threading.Thread(target=look)
    thread.start()
    for i in range(60):
        empty_ok(upload(pair(d + "/a", contents[i % 2])))
    stop.set()
    thread.join()
    assert seen == []


@case
def upload_many_at_once_to_one_path():
    d = fresh()
    contents = [bytes([65 + i]) * 200000 for i in range(8)]
    threads = [threading.Thread(target=lambda c=c: upload(pair(d + "/a", c))) for c in contents]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert read(d + "/a") in contents and os.listdir(d) == ["a"]


@case
def upload_on_a_full_disk_is_a_clean_error():
    d = fresh()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "none", d], check=False).returncode:
        print("skip upload_on_a_full_disk_is_a_clean_error cannot mount here")
        return
    try:
        put(d + "/a", b"old")
        error(upload(pair(d + "/a", b"x" * (3 << 20))), 500, "RUNTIME_ERROR", "space")
        error(upload(pair(d + "/new/b", b"x" * (3 << 20))), 500, "RUNTIME_ERROR", "space")
        until(lambda: os.listdir(d) == ["a"], "nothing left")
        assert read(d + "/a") == b"old"
        empty_ok(upload(pair(d + "/c", b"x" * (800 << 10))))  # the room is there again
    finally:
        subprocess.run(["umount", d], check=True)


@case
def upload_synced_on_request():
    d = fresh()
    empty_ok(upload(pair(d + "/a", b"1"), sync="true"))
    assert read(d + "/a") == b"1"


@case
def upload_traversal_is_cleaned_lexically():
    d = fresh()
    empty_ok(upload(pair(d + "/x/../y/./f", b"1")))
    assert os.listdir(d) == ["y"] and read(d + "/y/f") == b"1"


# --- GET /files/download ---

def download(path, fields=(), **params):
    return call("GET", "/files/download", None, fields, path=path, **params)


@case
def download_headers():
    d = fresh()
    put(d + "/a.txt", b"hello")
    os.utime(d + "/a.txt", (1000, 1000000000))
    r = download(d + "/a.txt")
    assert r.status == 200 and r.body == b"hello"
    assert r.get("content-type") == "application/octet-stream"
    assert r.get("accept-ranges") == "bytes" and r.get("content-length") == "5"
    assert r.get("last-modified") == "Sun, 09 Sep 2001 01:46:40 GMT"
    assert r.get("content-disposition") == 'attachment; filename="a.txt"'


@case
def download_names_of_any_kind():
    d = fresh()
    for name, want in (("ü €.txt", "%C3%BC%20%E2%82%AC.txt"), ('q"uote\\', "q%22uote%5C"),
                       ("new\r\nSet-Cookie: a=b", "new%0D%0ASet-Cookie%3A%20a%3Db")):
        put(f"{d}/{name}", b"x")
        got = download(f"{d}/{name}").get("content-disposition")
        assert got == f"attachment; filename=\"{want}\"; filename*=UTF-8''{want}", got


@case
def download_ranges():
    d = fresh()
    data = bytes(range(256)) * 1000
    put(d + "/large", data), put(d + "/small", data[:1000])
    for path, whole in ((d + "/large", data), (d + "/small", data[:1000])):
        size = len(whole)
        for spec, first, last in (("0-0", 0, 0), ("5-9", 5, 9), (f"{size - 1}-", size - 1, size - 1),
                                  ("-7", size - 7, size - 1), (f"10-{size * 2}", 10, size - 1),
                                  (f"-{size * 2}", 0, size - 1), ("0-", 0, size - 1),
                                  ("3-4,8-9", 3, 4), (f"{size}-,5-6", 5, 6)):
            r = download(path, [("Range", f"bytes={spec}")])
            assert r.status == 206, (spec, r.status)
            assert r.get("content-range") == f"bytes {first}-{last}/{size}", spec
            assert r.body == whole[first:last + 1], spec
        r = download(path, [("Range", f"bytes={size}-")])
        assert r.status == 416 and r.get("content-range") == f"bytes */{size}"
        for bad in ("bytes=x-y", "bytes=9-5", "bytes=-", "bytes=", "bytes=1-2,x"):
            r = download(path, [("Range", bad)])
            error(r, 416, "UNKNOWN")
        r = download(path, [("Range", "lines=1-2")])
        assert r.status == 200 and r.body == whole


@case
def download_range_of_an_empty_file():
    d = fresh()
    put(d + "/a")
    r = download(d + "/a", [("Range", "bytes=0-")])
    assert (r.status, r.body, r.get("content-length")) == (200, b"", "0")


@case
def download_conditions():
    d = fresh()
    put(d + "/a", b"hello")
    os.utime(d + "/a", (1000, 1000000000))
    then, later = "Sun, 09 Sep 2001 01:46:40 GMT", "Mon, 10 Sep 2001 01:46:40 GMT"
    before = "Sat, 08 Sep 2001 01:46:40 GMT"
    for when, status in ((then, 304), (later, 304), (before, 200), ("nonsense", 200)):
        assert download(d + "/a", [("If-Modified-Since", when)]).status == status, when
    for when, status in ((then, 206), (before, 200), (later, 200), ('"etag"', 200)):
        r = download(d + "/a", [("Range", "bytes=1-2"), ("If-Range", when)])
        assert r.status == status, when
        assert r.body == (b"el" if status == 206 else b"hello")


@case
def download_lines():
    d = fresh()
    put(d + "/a", b"one\r\ntwo\n\nfour\nfive")
    for offset, limit, want in ((1, 1, b"one"), (1, 2, b"one\ntwo"), (2, 3, b"two\n\nfour"),
                                (5, 9, b"five"), (6, 1, b""), (None, 2, b"one\ntwo"),
                                (4, None, b"four\nfive"), (3, 1, b""), (3, 2, b"\nfour")):
        params = {k: v for k, v in (("offset", offset), ("limit", limit)) if v is not None}
        r = download(d + "/a", **params)
        assert (r.status, r.body) == (200, want), (offset, limit, r.body)
        assert r.get("content-type") == "text/plain; charset=utf-8"
        assert r.get("content-length") is None
    put(d + "/b", b"x\n" * 3)
    assert download(d + "/b", offset=1).body == b"x\nx\nx"
    for bad in ({"offset": 0}, {"limit": 0}, {"offset": -1}, {"limit": "x"}, {"offset": ""}):
        error(download(d + "/a", **bad), 400, "INVALID_REQUEST_BODY")
    error(download(d + "/a", [("Range", "bytes=0-1")], offset=1), 400, "INVALID_REQUEST_BODY")


@case
def download_lines_of_a_large_file():
    d = fresh()
    lines = [b"%d:" % i + b"z" * (i % 97) for i in range(200000)]
    put(d + "/a", b"\r\n".join(lines))
    assert download(d + "/a", offset=150001, limit=5).body == b"\n".join(lines[150000:150005])
    assert download(d + "/a", offset=1).body == b"\n".join(lines)
    put(d + "/long", b"a" * 1000000 + b"\r\n" + b"b" * 10)
    assert download(d + "/long", limit=1).body == b"a" * 1000000
    assert download(d + "/long", offset=2).body == b"b" * 10


@case
def download_refuses_what_is_no_file():
    d = fresh()
    os.mkfifo(d + "/fifo")
    os.symlink("self", d + "/self")
    for path, words in ((d, "directory"), (d + "/fifo", "FIFO"), ("/dev/zero", "device"),
                        ("/dev/tty", "device")):
        error(download(path), 400, "INVALID_FILE", words)
        error(download(path, offset=1), 400, "INVALID_FILE", words)
    error(download(d + "/no"), 404, "FILE_NOT_FOUND", "not found")
    error(download(d + "/self"), 500, "RUNTIME_ERROR")
    error(call("GET", "/files/download"), 400, "MISSING_QUERY", "path")


@case
def download_files_that_lie_about_their_size():
    for path in ("/proc/cpuinfo", "/proc/self/mountinfo", "/proc/version"):
        want = read(path)
        got = download(path)
        assert got.status == 200 and got.body, path
        if path != "/proc/self/mountinfo":
            assert got.body.split(b"\n")[0] == want.split(b"\n")[0], path
    got = download("/sys/kernel/mm/transparent_hugepage/enabled") \
        if os.path.exists("/sys/kernel/mm/transparent_hugepage/enabled") else None
    if got:
        assert got.body == read("/sys/kernel/mm/transparent_hugepage/enabled")
        assert int(got.get("content-length")) == len(got.body)
    big = "/proc/kallsyms"
    if os.path.exists(big) and len(read(big)) > 1 << 20:
        got = download(big)
        assert got.get("transfer-encoding") == "chunked" and len(got.body) == len(read(big))
    assert download("/proc/version", [("Range", "bytes=0-4")]).body == b"Linux"


@case
def download_by_a_slow_reader_costs_no_memory():
    d = fresh()
    with open(d + "/a", "wb") as f:
        f.truncate(1 << 30)
    before = execd.peak_rss_kib()
    socks = []
    for _ in range(20):
        s = execd.connect()
        s.sendall(f"GET /files/download?path={d}/a HTTP/1.1\r\nHost: x\r\n\r\n".encode())
        socks.append(s)
    for s in socks:
        assert s.recv(4096).startswith(b"HTTP/1.1 200")
    assert sanitized("execd") or execd.peak_rss_kib() - before < 8 << 10
    for s in socks:
        s.close()
    until(lambda: call("GET", "/files/info").status == 200, "alive")


@case
def downloads_leave_no_descriptors():
    d = fresh()
    put(d + "/a", b"x" * 200000), put(d + "/b", b"small")
    download(d + "/a")
    before = execd.fds()
    for _ in range(50):
        download(d + "/a"), download(d + "/b"), download(d + "/no"), download(d + "/a", offset=2)
        with execd.connect() as s:
            s.sendall(f"GET /files/download?path={d}/a HTTP/1.1\r\nHost: x\r\n\r\n".encode())
            s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    until(lambda: execd.fds() <= before, "descriptors closed")


end()
