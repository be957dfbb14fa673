#!/usr/bin/env python3
"""Files and directories of execd, route by route, as a client that knows only HTTP sees them."""
# timeout: 600

import grp
import json
import os
import pwd
import shutil
import socket
import stat
import subprocess
import tempfile
import time
import urllib.parse

from execdlib import empty_ok, error
from fileslib import TOP, call, end, execd, fresh, leftovers, ok, put, read
from harness import DEADLINE, Reader, case, request, sanitized, until

# --- GET /files/info ---

@case
def info_tells_all_fields():
    d = fresh()
    path = put(d + "/a.txt", b"hello", 0o640)
    info = ok(call("GET", "/files/info", path=path))[path]
    st = os.stat(path)
    assert info["path"] == path and info["type"] == "file" and info["size"] == 5
    assert info["mode"] == 640 and isinstance(info["mode"], int)
    assert info["owner"] == pwd.getpwuid(st.st_uid).pw_name
    assert info["group"] == grp.getgrgid(st.st_gid).gr_name
    for key in ("modified_at", "created_at"):
        assert info[key].endswith("Z") and "T" in info[key], info


@case
def info_of_several_keyed_as_sent():
    d = fresh()
    put(d + "/a"), put(d + "/b")
    sent = [d + "/a", d + "/./b", d + "//a"]
    got = ok(call("GET", "/files/info", path=sent))
    assert sorted(got) == sorted(sent)
    assert got[d + "/./b"]["path"] == d + "/b" and got[d + "//a"]["path"] == d + "/a"


@case
def info_without_path_is_empty_object():
    assert ok(call("GET", "/files/info")) == {}


@case
def info_of_one_missing_is_404_for_all():
    d = fresh()
    put(d + "/a")
    error(call("GET", "/files/info", path=[d + "/a", d + "/no"]), 404, "FILE_NOT_FOUND",
          "not found")


@case
def info_types_and_links_not_followed():
    d = fresh()
    os.mkdir(d + "/dir")
    os.symlink("nowhere", d + "/link")
    os.mkfifo(d + "/fifo")
    names = ["dir", "link", "fifo"]
    got = ok(call("GET", "/files/info", path=[f"{d}/{n}" for n in names]))
    assert [got[f"{d}/{n}"]["type"] for n in names] == ["directory", "symlink", "other"]


@case
def info_unknown_owner_is_a_number():
    d = fresh()
    put(d + "/a")
    os.chown(d + "/a", 54321, 54322)
    got = ok(call("GET", "/files/info", path=d + "/a"))[d + "/a"]
    assert (got["owner"], got["group"]) == ("54321", "54322")


@case
def info_created_at_is_time_of_birth():
    d = fresh()
    path = put(d + "/a", b"1")
    os.utime(path, (1000, 1000))
    os.chmod(path, 0o600)  # moves ctime
    got = ok(call("GET", "/files/info", path=path))[path]
    assert got["modified_at"] == "1970-01-01T00:16:40Z", got
    birth = subprocess.run(["stat", "-c", "%W", path], capture_output=True, check=True).stdout
    if int(birth) > 0:
        created = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(int(birth)))
        assert got["created_at"].startswith(created), (got, created)


@case
def paths_are_expanded():
    put(TOP + "/expanded/f", b"x")
    got = ok(call("GET", "/files/info", path=["$OSB_TEST_DIR/f", "${OSB_TEST_DIR}/f"]))
    assert {i["path"] for i in got.values()} == {TOP + "/expanded/f"}
    reply = call("GET", "/files/info", path="$OSB_NO_SUCH_NAME/f")
    assert reply.status >= 400 and b"OSB_NO_SUCH_NAME" in reply.body, reply.body
    put(TOP + "/a$b", b"dollar")
    assert ok(call("GET", "/files/info", path="a$b"))["a$b"]["size"] == 6


@case
def a_nul_in_a_path_is_refused():
    for target in ("/files/info?path=/tmp/a%00b", "/files/download?path=/etc/passwd%00.txt",
                   "/directories?path=%00"):
        method = "DELETE" if target.startswith("/directories") else "GET"
        reply = request(execd, method, target)
        assert reply.status == 400, (target, reply.status)
    error(call("POST", "/files/mv", [{"src": "/a\0b", "dest": "/x"}]), 400, "INVALID_REQUEST_BODY")


@case
def plus_and_escapes_in_queries():
    d = fresh()
    put(d + "/a b+c%.txt", b"1")
    raw = urllib.parse.quote(d) + "/a+b%2bc%25.txt"
    assert len(ok(request(execd, "GET", "/files/info?path=" + raw))) == 1
    reply = request(execd, "GET", "/files/info?path=%zz")
    assert reply.status == 400, reply.status


@case
def a_name_too_long_is_an_error():
    reply = call("GET", "/files/info", path="/tmp/" + "x" * 300)
    assert reply.status == 500 and b"name" in reply.body.lower(), reply.body
    reply = call("GET", "/files/info", path="/tmp" + "/xxxxxxxxx" * 500)
    assert reply.status >= 400


# --- DELETE /files ---

@case
def delete_files_and_missing_ones():
    d = fresh()
    put(d + "/a"), put(d + "/b")
    empty_ok(call("DELETE", "/files", path=[d + "/a", d + "/gone", d + "/b"]))
    assert os.listdir(d) == []
    empty_ok(call("DELETE", "/files"))


@case
def delete_takes_links_themselves():
    d = fresh()
    os.mkdir(d + "/dir")
    put(d + "/dir/kept")
    os.symlink("dir", d + "/to_dir")
    os.symlink("nowhere", d + "/dangling")
    empty_ok(call("DELETE", "/files", path=[d + "/to_dir", d + "/dangling"]))
    assert os.listdir(d) == ["dir"] and os.listdir(d + "/dir") == ["kept"]


@case
def delete_refuses_directories():
    d = fresh()
    os.mkdir(d + "/dir")
    error(call("DELETE", "/files", path=d + "/dir"), 500, "RUNTIME_ERROR", "path is a directory")
    assert os.path.isdir(d + "/dir")


# --- POST /files/permissions ---

@case
def permissions_mode_in_octal_digits():
    d = fresh()
    put(d + "/a", mode=0o600)
    empty_ok(call("POST", "/files/permissions", {d + "/a": {"mode": 754}}))
    assert stat.S_IMODE(os.stat(d + "/a").st_mode) == 0o754
    empty_ok(call("POST", "/files/permissions", {d + "/a": {"mode": 0}}))
    assert stat.S_IMODE(os.stat(d + "/a").st_mode) == 0o754


@case
def permissions_special_bits_when_asked_for():
    d = fresh()
    os.mkdir(d + "/t")
    empty_ok(call("POST", "/files/permissions", {d + "/t": {"mode": 1777}}))
    assert stat.S_IMODE(os.stat(d + "/t").st_mode) == 0o1777
    assert ok(call("GET", "/files/info", path=d + "/t"))[d + "/t"]["mode"] == 1777


@case
def permissions_owner_by_name_and_number():
    d = fresh()
    put(d + "/a", mode=0o644)
    empty_ok(call("POST", "/files/permissions",
                  {d + "/a": {"owner": "daemon", "group": None, "mode": 600}}))
    st = os.stat(d + "/a")
    assert (st.st_uid, st.st_gid) == (pwd.getpwnam("daemon").pw_uid, 0)
    empty_ok(call("POST", "/files/permissions", {d + "/a": {"owner": "777", "group": "778"}}))
    st = os.stat(d + "/a")
    assert (st.st_uid, st.st_gid, stat.S_IMODE(st.st_mode)) == (777, 778, 0o600)
    empty_ok(call("POST", "/files/permissions", {d + "/a": {"mode": 640}}))
    assert os.stat(d + "/a").st_uid == 777  # no owner given: untouched


@case
def permissions_errors():
    d = fresh()
    put(d + "/a", mode=0o600)
    for bad in ({"mode": 689}, {"mode": -1}, {"mode": 77777}, {"owner": "no-such-user", "mode": 1},
                {"group": "no-such-group"}):
        reply = call("POST", "/files/permissions", {d + "/a": bad})
        error(reply, 500, "RUNTIME_ERROR")
    for bad in ({"mode": "644"}, {"mode": 1.5}, {"owner": 3}, [], "x"):
        error(call("POST", "/files/permissions", {d + "/a": bad}), 400, "INVALID_REQUEST_BODY")
    error(call("POST", "/files/permissions", {d + "/no": {"mode": 600}}), 404, "FILE_NOT_FOUND")
    error(call("POST", "/files/permissions", {d + "/no": {"mode": 0}}), 404, "FILE_NOT_FOUND")
    for bad in (b"", b"{", b"[]", b"7"):
        error(call("POST", "/files/permissions", bad), 400, "INVALID_REQUEST_BODY")
    assert stat.S_IMODE(os.stat(d + "/a").st_mode) == 0o600


# --- POST /files/mv ---

@case
def mv_files_and_directories():
    d = fresh()
    put(d + "/a", b"1"), put(d + "/dir/x", b"2")
    empty_ok(call("POST", "/files/mv", [{"src": d + "/a", "dest": d + "/new/deep/b"},
                                       {"src": d + "/dir", "dest": d + "/dir2"}]))
    assert read(d + "/new/deep/b") == b"1" and read(d + "/dir2/x") == b"2"
    assert not os.path.exists(d + "/a") and not os.path.exists(d + "/dir")


@case
def mv_never_replaces():
    d = fresh()
    put(d + "/a", b"1"), put(d + "/b", b"2")
    os.symlink("nowhere", d + "/dangling")
    for dest in ("/b", "/dangling", "/a"):
        error(call("POST", "/files/mv", [{"src": d + "/a", "dest": d + dest}]), 500,
              "RUNTIME_ERROR", "destination path already exists")
    assert read(d + "/a") == b"1" and read(d + "/b") == b"2"


@case
def mv_moves_links_themselves():
    d = fresh()
    os.symlink("nowhere", d + "/link")
    empty_ok(call("POST", "/files/mv", [{"src": d + "/link", "dest": d + "/moved"}]))
    assert os.readlink(d + "/moved") == "nowhere"


@case
def mv_errors():
    d = fresh()
    error(call("POST", "/files/mv", [{"src": d + "/no", "dest": d + "/b"}]), 404, "FILE_NOT_FOUND")
    os.mkdir(d + "/dir")
    error(call("POST", "/files/mv", [{"src": d + "/dir", "dest": d + "/dir/in/it"}]), 500,
          "RUNTIME_ERROR")
    assert os.listdir(d + "/dir") == []  # made parents are taken back
    for bad in (b"", b"{}", [{"src": d}], [{"src": 1, "dest": 2}], ["x"], [{"src": "", "dest": ""}]):
        error(call("POST", "/files/mv", bad), 400, "INVALID_REQUEST_BODY")
    empty_ok(call("POST", "/files/mv", []))


def other_file_system():
    for path in ("/dev/shm", "/run", "/var/tmp", "/tmp"):
        if os.path.isdir(path) and os.access(path, os.W_OK):
            if os.stat(path).st_dev != os.stat(TOP).st_dev:
                return tempfile.mkdtemp(prefix="osb-other-", dir=path)
    return None


@case
def mv_across_file_systems():
    other = other_file_system()
    assert other, "no second file system here"
    try:
        d = fresh()
        put(d + "/tree/sub/file", b"x" * 100000, 0o4750)
        os.chown(d + "/tree/sub/file", 777, 778)
        os.chmod(d + "/tree/sub/file", 0o4750)
        os.symlink("file", d + "/tree/sub/link")
        os.mkfifo(d + "/tree/fifo", 0o600)
        os.mkdir(d + "/tree/empty", 0o700)
        with open(d + "/tree/sparse", "wb") as f:
            f.truncate(50 << 20)
            f.seek(40 << 20)
            f.write(b"end")
        for path in ("/tree/sub/file", "/tree/sub", "/tree"):
            os.utime(d + path, (1000, 2000))
        empty_ok(call("POST", "/files/mv", [{"src": d + "/tree", "dest": other + "/in/tree"}]))
        assert not os.path.exists(d + "/tree")
        st = os.stat(other + "/in/tree/sub/file")
        assert (st.st_uid, st.st_gid, st.st_mtime) == (777, 778, 2000)
        assert stat.S_IMODE(st.st_mode) == 0o4750 and st.st_size == 100000
        assert os.readlink(other + "/in/tree/sub/link") == "file"
        assert stat.S_ISFIFO(os.stat(other + "/in/tree/fifo").st_mode)
        assert stat.S_IMODE(os.stat(other + "/in/tree/empty").st_mode) == 0o700
        assert os.stat(other + "/in/tree").st_mtime == 2000
        sparse = os.stat(other + "/in/tree/sparse")
        assert sparse.st_size == 50 << 20 and sparse.st_blocks * 512 < 10 << 20
        with open(other + "/in/tree/sparse", "rb") as f:
            f.seek(40 << 20)
            assert f.read(3) == b"end"
        assert leftovers(other) == []
        put(d + "/f", b"1"), put(other + "/f", b"2")
        error(call("POST", "/files/mv", [{"src": d + "/f", "dest": other + "/f"}]), 500,
              "RUNTIME_ERROR", "already exists")
        assert read(other + "/f") == b"2"
    finally:
        shutil.rmtree(other)


# --- POST /files/replace ---

@case
def replace_counts_and_keeps_traits():
    d = fresh()
    put(d + "/a", b"one two one\n" * 3, 0o4711)
    os.chown(d + "/a", 777, 778)
    os.chmod(d + "/a", 0o4711)
    got = ok(call("POST", "/files/replace", {d + "/a": {"old": "one", "new": "1"}}, verbose="true"))
    assert got == {d + "/a": {"replacedCount": 6}}
    assert read(d + "/a") == b"1 two 1\n" * 3
    st = os.stat(d + "/a")
    assert (st.st_uid, st.st_gid, stat.S_IMODE(st.st_mode)) == (777, 778, 0o4711)
    empty_ok(call("POST", "/files/replace", {d + "/a": {"old": "two", "new": ""}}))
    empty_ok(call("POST", "/files/replace", {d + "/a": {"old": "x", "new": "y"}}, verbose="True"))
    assert read(d + "/a") == b"1  1\n" * 3 and leftovers(d) == []


@case
def replace_without_match_touches_nothing():
    d = fresh()
    put(d + "/a", b"abc")
    before = os.stat(d + "/a")
    got = ok(call("POST", "/files/replace", {d + "/a": {"old": "zzz", "new": "y"}}, verbose="true"))
    assert got == {d + "/a": {"replacedCount": 0}}
    after = os.stat(d + "/a")
    assert (before.st_ino, before.st_mtime_ns) == (after.st_ino, after.st_mtime_ns)


@case
def replace_is_exact_at_every_boundary():
    d = fresh()
    chunk = 256 << 10
    for old in (b"X", b"needle", b"ab" * 5000):
        for at in (0, chunk - len(old) - 1, chunk - len(old), chunk - 1, chunk, chunk + 1,
                   chunk + len(old) - 1, 2 * chunk - 3, 3 * chunk):
            if at < 0:
                continue
            data = b"." * at + old + b"," * 10 + old
            put(d + "/a", data)
            got = ok(call("POST", "/files/replace",
                          {d + "/a": {"old": old.decode(), "new": "<>"}}, verbose="true"))
            assert got[d + "/a"]["replacedCount"] == 2, (old[:9], at, got)
            assert read(d + "/a") == b"." * at + b"<>" + b"," * 10 + b"<>", (old[:9], at)


@case
def replace_does_not_overlap_and_goes_from_the_left():
    d = fresh()
    for data, old, new in ((b"aaaaa", "aa", "b"), (b"abababa", "aba", "X"), (b"aab" * 99, "aab", "b")):
        put(d + "/a", data)
        call("POST", "/files/replace", {d + "/a": {"old": old, "new": new}})
        assert read(d + "/a") == data.replace(old.encode(), new.encode())


@case
def replace_huge_file_in_little_memory():
    d = fresh()
    line = b"0123456789abcdef" * 4095 + b"needle and thread "
    with open(d + "/a", "wb") as f:
        for _ in range(1600):
            f.write(line)
    before = execd.peak_rss_kib()
    got = ok(call("POST", "/files/replace", {d + "/a": {"old": "needle", "new": "pin"}},
                  verbose="true"))
    assert got[d + "/a"]["replacedCount"] == 1600
    assert os.path.getsize(d + "/a") == 1600 * (len(line) - 3)
    assert sanitized("execd") or execd.peak_rss_kib() - before < 8 << 10
    os.unlink(d + "/a")


@case
def replace_follows_links_and_keeps_them():
    d = fresh()
    put(d + "/real/a", b"old")
    os.symlink("real/a", d + "/link")
    empty_ok(call("POST", "/files/replace", {d + "/link": {"old": "old", "new": "new"}}))
    assert os.readlink(d + "/link") == "real/a" and read(d + "/real/a") == b"new"


@case
def replace_errors():
    d = fresh()
    put(d + "/a", b"x")
    os.mkfifo(d + "/fifo")
    error(call("POST", "/files/replace", {d + "/a": {"old": "", "new": "y"}}), 400,
          "INVALID_REQUEST_BODY", "old content must not be empty")
    error(call("POST", "/files/replace", {d + "/no": {"old": "a", "new": "y"}}), 404,
          "FILE_NOT_FOUND")
    error(call("POST", "/files/replace", {d: {"old": "a", "new": "y"}}), 400, "INVALID_FILE")
    error(call("POST", "/files/replace", {d + "/fifo": {"old": "a", "new": "y"}}), 400,
          "INVALID_FILE", "FIFO")
    for bad in (b"", b"[1]", {d + "/a": {"old": 1, "new": "y"}}, {d + "/a": "x"}):
        error(call("POST", "/files/replace", bad), 400, "INVALID_REQUEST_BODY")


# --- GET /files/search ---

def search(path, pattern=None):
    params = {"path": path}
    if pattern is not None:
        params["pattern"] = pattern
    return [i["path"][len(path) + 1:] for i in ok(call("GET", "/files/search", **params))]


@case
def search_finds_all_by_default_in_order():
    d = fresh()
    for name in ("b", "a/z", "a/.hidden", "c/d/e", "B"):
        put(f"{d}/{name}")
    os.symlink("c", d + "/link")
    assert search(d) == ["B", "a/.hidden", "a/z", "b", "c/d/e", "link"]


@case
def search_bare_patterns_match_names():
    d = fresh()
    for name in ("x.py", "a/y.py", "a/b/z.py", "a/b/z.txt", "n1", "n2", "n3"):
        put(f"{d}/{name}")
    assert search(d, "*.py") == ["a/b/z.py", "a/y.py", "x.py"]
    assert search(d, "**/*.py") == ["a/b/z.py", "a/y.py", "x.py"]
    assert search(d, "?.{py,txt}") == ["a/b/z.py", "a/b/z.txt", "a/y.py", "x.py"]
    assert search(d, "n[12]") == ["n1", "n2"] and search(d, "n[!12]") == ["n3"]
    assert search(d, "!(*.py)") == ["a/b/z.txt", "n1", "n2", "n3"]
    assert search(d, "nothing") == []


@case
def search_patterns_with_directories_match_relative_paths():
    d = fresh()
    for name in ("src/a.py", "src/sub/b.py", "test/a.py", "a.py"):
        put(f"{d}/{name}")
    assert search(d, "src/*.py") == ["src/a.py"]
    assert search(d, "src/**/*.py") == ["src/a.py", "src/sub/b.py"]
    assert search(d, d + "/*.py") == ["a.py"]


@case
def search_errors():
    d = fresh()
    put(d + "/a")
    error(call("GET", "/files/search"), 400, "MISSING_QUERY", "path")
    error(call("GET", "/files/search", path=d + "/no"), 404, "FILE_NOT_FOUND")
    error(call("GET", "/files/search", path=d, pattern="[a"), 500, "RUNTIME_ERROR", "pattern")
    error(call("GET", "/files/search", path=d, pattern="{" * 2000), 500, "RUNTIME_ERROR")


@case
def search_below_a_link_and_of_a_file():
    d = fresh()
    put(d + "/real/a.txt")
    os.symlink("real", d + "/link")
    assert search(d + "/link", "*.txt") == ["a.txt"]
    got = ok(call("GET", "/files/search", path=d + "/real/a.txt", pattern="*.txt"))
    assert [i["path"] for i in got] == [d + "/real/a.txt"]


@case
def search_survives_loops_and_hostile_patterns():
    d = fresh()
    put(d + "/" + "a" * 200)
    os.symlink(".", d + "/loop")
    os.symlink("self", d + "/self")
    assert search(d) == ["a" * 200, "loop", "self"]
    start = time.monotonic()
    assert search(d, "*a" * 120 + "b") == []
    assert search(d, "{a*,a*}" * 30 + "b") == []
    assert time.monotonic() - start < DEADLINE


@case
def unreadable_directories_are_passed_over():
    d = fresh()
    put(d + "/open/a"), put(d + "/closed/b"), put(d + "/z")
    os.chmod(d + "/closed", 0)
    nobody = subprocess.Popen([execd.argv[0], "--port", "0"], stdout=subprocess.PIPE, cwd="/",
                              user=65534, group=65534, extra_groups=[])
    try:
        port = int(nobody.stdout.readline().rsplit(b":", 1)[1])
        s = socket.create_connection(("127.0.0.1", port), timeout=DEADLINE)
        s.sendall(f"GET /files/search?path={d} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
        got = json.loads(Reader(s).reply().body)
        assert [i["path"][len(d) + 1:] for i in got] == ["open/a", "z"]
        s.sendall(f"GET /directories/list?depth=2&path={d} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
        got = json.loads(Reader(s).reply().body)
        assert [i["path"][len(d) + 1:] for i in got] == ["closed", "open", "open/a", "z"]
        s.close()
    finally:
        os.chmod(d + "/closed", 0o755)
        nobody.kill()
        nobody.wait()
        nobody.stdout.close()


# --- GET /directories/list ---

def listing(path, **params):
    return [i["path"][len(path.rstrip("/")) + 1:]
            for i in ok(call("GET", "/directories/list", path=path, **params))]


@case
def list_depth_and_order():
    d = fresh()
    for name in ("b/x/deep", "b/a", "a.txt", "c"):
        put(f"{d}/{name}")
    os.symlink("b", d + "/link")
    assert listing(d) == ["a.txt", "b", "c", "link"]
    assert listing(d, depth=2) == ["a.txt", "b", "b/a", "b/x", "c", "link"]
    assert listing(d, depth=9) == ["a.txt", "b", "b/a", "b/x", "b/x/deep", "c", "link"]
    assert listing(d, depth=0) == []
    os.mkdir(d + "/empty")
    assert listing(d + "/empty") == [] and listing(d + "/empty/") == []


@case
def list_errors():
    d = fresh()
    put(d + "/f")
    os.symlink(d, d + "/link")
    error(call("GET", "/directories/list"), 400, "MISSING_QUERY", "path")
    error(call("GET", "/directories/list", path=d + "/no"), 404, "FILE_NOT_FOUND")
    error(call("GET", "/directories/list", path=d + "/f"), 400, "INVALID_REQUEST_BODY")
    error(call("GET", "/directories/list", path=d + "/link"), 400, "INVALID_REQUEST_BODY")
    for bad in ("-1", "x", "1.5", "99999999999999999999"):
        error(call("GET", "/directories/list", path=d, depth=bad), 400, "INVALID_REQUEST_BODY")


@case
def list_of_a_huge_directory_is_complete_ordered_and_streamed():
    d = fresh()
    names = sorted(f"{i * 2654435761 % 1000003:06d}-file" for i in range(30000))
    for name in names:
        os.close(os.open(f"{d}/{name}", os.O_CREAT | os.O_WRONLY, 0o600))
    before = execd.peak_rss_kib()
    reply = call("GET", "/directories/list", path=d)
    assert reply.get("transfer-encoding") == "chunked"
    assert [i["path"][len(d) + 1:] for i in json.loads(reply.body)] == names
    assert sanitized("execd") or execd.peak_rss_kib() - before < 8 << 10
    assert len(search(d, "*-file")) == len(names)


@case
def list_for_a_slow_reader_blocks_nobody():
    d = fresh()
    for i in range(20000):
        os.close(os.open(f"{d}/{i:06d}-{'x' * 60}", os.O_CREAT | os.O_WRONLY, 0o600))
    slow = []
    for _ in range(8):  # more than there are threads
        s = socket.socket()
        s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        s.settimeout(DEADLINE)
        s.connect(("127.0.0.1", execd.port))
        s.sendall(f"GET /directories/list?path={d} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
        slow.append(s)
    heads = [s.recv(1) for s in slow]  # all have begun
    assert len(heads) == 8
    put(d + "/zzz", b"quick")
    assert ok(call("GET", "/files/info", path=d + "/zzz"))[d + "/zzz"]["size"] == 5
    for s in slow[1:]:
        s.close()
    reader = Reader(slow[0])
    reader.rest = heads[0]
    got = json.loads(reader.reply().body)
    assert len(got) in (20000, 20001)
    slow[0].close()


@case
def list_of_the_root():
    got = listing("/")
    assert "etc" in got and got == sorted(got)


@case
def names_of_any_bytes_are_listed():
    d = fresh()
    os.close(os.open(os.fsencode(d) + b"/bad\xff\xfename", os.O_CREAT | os.O_WRONLY))
    put(d + "/new\nline\"quote\u2028")
    got = json.loads(call("GET", "/directories/list", path=d).body)
    names = [i["path"][len(d) + 1:] for i in got]
    assert names == ["bad\ufffd\ufffdname", "new\nline\"quote\u2028"], names


# --- POST /directories ---

@case
def make_directories_with_parents():
    d = fresh()
    empty_ok(call("POST", "/directories", {d + "/a/b/c": {"mode": 2750, "owner": "777"},
                                          d + "/e": None}))
    st = os.stat(d + "/a/b/c")
    assert stat.S_IMODE(st.st_mode) == 0o2750 and st.st_uid == 777
    assert os.stat(d + "/a/b").st_uid == 0 and os.path.isdir(d + "/e")


@case
def make_leaves_existing_ones_alone():
    d = fresh()
    os.mkdir(d + "/a", 0o700)
    empty_ok(call("POST", "/directories", {d + "/a": {"mode": 755, "owner": "777"}}))
    st = os.stat(d + "/a")
    assert stat.S_IMODE(st.st_mode) == 0o700 and st.st_uid == 0


@case
def make_errors():
    d = fresh()
    put(d + "/f")
    error(call("POST", "/directories", {d + "/f": {"mode": 755}}), 500, "RUNTIME_ERROR")
    error(call("POST", "/directories", {d + "/f/below": {"mode": 755}}), 500, "RUNTIME_ERROR")
    error(call("POST", "/directories", {d + "/x": {"mode": 999}}), 500, "RUNTIME_ERROR")
    error(call("POST", "/directories", {d + "/x": {"owner": "no-such-user"}}), 500, "RUNTIME_ERROR")
    error(call("POST", "/directories", {d + "/y/" + "n" * 300: {}}), 500, "RUNTIME_ERROR")
    assert os.listdir(d) == ["f"]
    error(call("POST", "/directories", b""), 400, "INVALID_REQUEST_BODY")


# --- DELETE /directories ---

@case
def delete_directories_recursively():
    d = fresh()
    put(d + "/outside/kept")
    for name in ("a/b/c", "a/b/d/e", "a/x"):
        put(f"{d}/tree/{name}")
    os.symlink("../outside", d + "/tree/link")
    put(d + "/plain")
    empty_ok(call("DELETE", "/directories", path=[d + "/tree", d + "/plain", d + "/missing"]))
    assert os.listdir(d) == ["outside"] and os.listdir(d + "/outside") == ["kept"]


@case
def delete_takes_a_link_to_a_directory_alone():
    d = fresh()
    put(d + "/real/kept")
    os.symlink("real", d + "/link")
    empty_ok(call("DELETE", "/directories", path=d + "/link"))
    assert os.listdir(d) == ["real"] and os.listdir(d + "/real") == ["kept"]


@case
def delete_refuses_the_root():
    for path in ("/", "//", "/tmp/..", "/./", ""):
        reply = call("DELETE", "/directories", path=path)
        error(reply, 400, "INVALID_REQUEST_BODY", "refusing")
    assert os.path.isdir("/etc")
    empty_ok(call("DELETE", "/directories"))


@case
def delete_of_a_tree_deeper_than_any_path():
    d = fresh()
    back = os.open(".", os.O_RDONLY)
    os.mkdir(d + "/deep")
    os.chdir(d + "/deep")
    for _ in range(3000):
        os.mkdir("ddd")
        os.chdir("ddd")
    with open("leaf", "wb"):
        pass
    os.fchdir(back)
    os.close(back)
    before = execd.fds()
    empty_ok(call("DELETE", "/directories", path=d + "/deep"))
    assert os.listdir(d) == []
    until(lambda: execd.fds() <= before, "descriptors closed")


@case
def delete_of_a_wide_tree():
    d = fresh()
    for i in range(300):
        put(f"{d}/wide/{i:04d}/a/b")
    for i in range(3000):
        put(f"{d}/wide/f{i}")
    empty_ok(call("DELETE", "/directories", path=d + "/wide"))
    assert os.listdir(d) == []


end()
