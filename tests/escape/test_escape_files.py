#!/usr/bin/env python3
"""Files and mounts: attempts out of a sandbox, as its root and as an ordinary user, and hostile images, volumes and
archives on the way in. Each must be refused, and a canary outside (a file anyone may write, with a secret anyone may
read) must not have been touched or told.
timeout: 600"""

import errno
import hashlib
import io
import stat
import subprocess
import tarfile

from escapelib import *  # noqa: F401,F403  pylint: disable=wildcard-import,unused-wildcard-import
from boxes import DIR, FROM_HOST, FROM_STORE, LAYERS, Refused, Runner
from serverlib import Server

setup()
HOST_USER = 54321  # nobody on any machine


def digest(path):
    with open(path, "rb") as f:
        return hashlib.sha256(f.read()).hexdigest()


def as_host_user(code):
    """Exit code of Python code run outside, by a user without any rights."""
    return subprocess.run(["setpriv", "--reuid", str(HOST_USER), "--regid", str(HOST_USER), "--clear-groups",
                           "python3", "-c", code], check=False).returncode


@case
def E01_proc_self_exe_overwrite():
    programs = [os.path.join(BUILD, name) for name in ("execd", "opensandbox-server", "opensandbox-runner")]
    before = [digest(path) for path in programs]
    product().tries("E01")
    assert [digest(path) for path in programs] == before


@case
def E02_cwd_fd_leak():
    product().tries("E02")


@case
def E03_inherited_fd_census():
    product().tries("E03")
    box = product().box()
    pid = product().first_process(box)
    with open(f"/proc/{pid}/mountinfo", encoding="utf-8") as f:
        mounts = {line.split()[0] for line in f}
    for fd in os.listdir(f"/proc/{pid}/fd"):
        what = os.readlink(f"/proc/{pid}/fd/{fd}")
        if what.startswith("/") and not what.startswith("/memfd:"):  # a file: on a mount of the sandbox's own
            with open(f"/proc/{pid}/fdinfo/{fd}", encoding="ascii") as f:
                info = dict(line.split(":") for line in f.read().splitlines() if ":" in line)
            assert info["mnt_id"].strip() in mounts, (fd, what)
        else:
            assert what.split(":")[0] in ("socket", "pipe", "anon_inode", "/memfd"), (fd, what)
    with Runner() as r:
        item = r.create("box")
        found = {}
        until(lambda: len(os.listdir(f"/proc/{item.pid}/fd")) == 6, "the stand-in has begun")
        for fd in os.listdir(f"/proc/{item.pid}/fd"):
            found[int(fd)] = os.readlink(f"/proc/{item.pid}/fd/{fd}")
        assert sorted(found) == [0, 1, 2, 3, 4, 5], found
        assert found[0] == found[1] == found[2] == "/dev/null", found
        assert found[3].startswith("socket:") and "memfd:spec" in found[4] and "signalfd" in found[5], found


@case
def E04_masked_path_devnull_symlink():
    product().tries("E04", "CANARY")
    # an image that brings its own /dev/null, as a link
    with Canary() as c, Runner() as r:
        os.makedirs(os.path.join(layer(r, "l"), "dev"))
        os.symlink(c.path, os.path.join(r.state, "layers", "l", "dev", "null"))
        r.create("box", rootfs=LAYERS, layers=["l"])
        tries_in(r, "box", "E04", c.path)
        c.check()


@case
def E05_console_pts_symlink():
    box = product().box()
    product().tries("E05", "CANARY", box=box)
    answer = product().server.execd(box, "POST", "/pty", {"command": "tty"})
    assert answer.status == 201, (answer.status, answer.body)
    with Canary() as c, Runner() as r:
        os.makedirs(os.path.join(layer(r, "l"), "dev", "pts"))
        for name in ("console", "ptmx", "tty", "pts/0", "pts/ptmx", "shm"):
            os.symlink(c.path, os.path.join(r.state, "layers", "l", "dev", name))
        r.create("box", rootfs=LAYERS, layers=["l"])
        tries_in(r, "box", "E05", c.path)
        tries_in(r, "box", "E32")  # opens a terminal
        c.check()


@case
def E06_procfs_write_redirect():
    """What is written into an image must not be led elsewhere, least of all into procfs; nor what is written inside."""
    product().tries("E06", "CANARY")
    targets = ["/proc/sysrq-trigger", "/proc/self/attr/exec", "/proc/sys/kernel/core_pattern",
               "/proc/1/root/CANARY", "/../../../../../../CANARY", "/dev/null", "/sys/x"]
    with Canary() as c, Runner() as r:
        for i, target in enumerate(targets):
            os.makedirs(os.path.join(layer(r, f"l{i}"), "etc"))
            for name in ("hosts", "hostname", "resolv.conf"):
                os.symlink(target.replace("CANARY", c.path.lstrip("/")),
                           os.path.join(r.state, "layers", f"l{i}", "etc", name))
            r.create(f"b{i}", rootfs=LAYERS, layers=[f"l{i}"])
            for uid in users():
                _, out = probe_in(r, f"b{i}", "cat", "/etc/hostname", uid=uid)
                assert out in (f"b{i}\n", "") or "No such" in out, (target, out)
                probe_in(r, f"b{i}", "touch", "/etc/hosts", uid=uid)
                c.check(out)


def refused_or_inside(names):
    """Images in which these are links to the canary: refused with words, or taken inside."""
    with Canary() as c, Runner() as r:
        for i, (name, must_fail) in enumerate(names):
            os.makedirs(os.path.dirname(os.path.join(layer(r, f"l{i}"), name)), exist_ok=True)
            os.symlink(c.dir, os.path.join(r.state, "layers", f"l{i}", name))
            try:
                r.create(f"b{i}", rootfs=LAYERS, layers=[f"l{i}"])
                assert not must_fail, name
                for uid in users():
                    _, out = probe_in(r, f"b{i}", "ls", "/" + name, uid=uid)
                    _, more = probe_in(r, f"b{i}", "cat", f"/{name}/canary", uid=uid)
                    probe_in(r, f"b{i}", "touch", f"/{name}/owned", uid=uid)
                    c.check(out + more)
            except Refused as e:
                assert name.split("/")[0] in e.text, e
            c.check()


@case
def E07_dev_symlink_image():
    refused_or_inside([("dev", True), ("dev/pts", False), ("dev/shm", False), ("dev/mqueue", False)])


@case
def E08_proc_sys_symlink_image():
    refused_or_inside([("proc", True), ("sys", True), ("etc", False), ("usr", False), ("proc/sys", False),
                       ("proc/self", False), ("sys/fs", False)])


SWAP = """
import os, sys
base, target, made, other = sys.argv[1:]
os.makedirs(base + '/' + made, exist_ok=True)
os.symlink(target, base + '/' + other)
print('up', flush=True)
while True:
    for kind in (made, other):
        try:
            os.rename(base + '/' + kind, base + '/t')
            os.rename(base + '/t', base + '/' + kind)
        except OSError: pass
"""


def race(rounds, target, uid):
    """One sandbox swaps a directory of a shared volume for a link, while others are made that have a volume there."""
    with Canary() as c, Runner() as r:
        os.chmod(volume(r, "shared"), 0o777)
        volume(r, "other")
        shared = (FROM_STORE, "shared", "/v", 0)
        r.create("racer", volumes=[shared])
        s, reading = r.start_in("racer", "python3", "-c", SWAP, "/v", c.dir, "dir", "link", uid=uid)
        assert os.read(reading, 10) == b"up\n"
        made = 0
        for _ in range(rounds):
            try:
                r.create("b", volumes=[shared, (FROM_STORE, "other", target, 0)])
                made += 1
                r.shell("b", f"echo x > {target}/mark")
                r.delete("b")
            except Refused as e:
                assert e.code in (errno.ENOENT, errno.ENOTDIR, errno.EEXIST, errno.ELOOP, errno.EBUSY), e
            c.check()
        assert made > 0
        os.close(reading)
        s.close()


@case
def E09_volume_target_symlink_race():
    for uid in users():
        race(40, "/v/t", uid)


@case
def E10_shared_volume_create_race():
    """Directories that are made for a target must not be made outside."""
    for uid in users():
        race(40, "/v/t/made/deeper", uid)
    p = product()
    first = p.box(volumes=[{"name": "v", "pvc": {"claimName": "e10"}, "mountPath": "/v"}])
    for uid in users():
        with Canary() as c:
            assert p.run(first, f"mkdir -m 777 /v/{uid}")[0] == 0
            for i, target in enumerate((c.dir, "/", "../../..", "/proc/1/root", "../sandboxes")):
                links = f"cd /v/{uid}; ln -s {target} s{i}; mkdir -p d; ln -s {target} d/s{i}"
                assert p.run(first, links, uid)[0] == 0
                for sub in (f"s{i}", f"d/s{i}", f"s{i}/x", f"d/../s{i}", f"d/s{i}/{c.dir.strip('/')}"):
                    answer = p.server.create(volumes=[{"name": "v", "pvc": {"claimName": "e10"},
                                                       "subPath": f"{uid}/{sub}", "mountPath": "/m"}])
                    assert 400 <= answer.status < 500 or answer.status == 500, (sub, answer.status, answer.body)
                c.check()


def led_away(r, c, path):
    """A sandbox that has a directory of the host makes links there, and swaps one for a directory; others are made
    that ask for what is behind them."""
    os.chmod(path, 0o777)
    r.create("inside", volumes=[(FROM_HOST, path, "/m", 0)])
    for uid in users():
        made = f"cd /m; mkdir {uid}; cd {uid}; ln -s / root; ln -s {c.dir} canary; ln -s ../../.. up; mkdir dir"
        assert r.shell("inside", made, uid=uid) == (0, "")
        for name in ("root", "root/etc", "canary", "up", "dir/../../..", "root" + c.dir):
            try:
                r.create("box", volumes=[(FROM_HOST, f"{path}/{uid}/{name}", "/x", 0)])
                raise AssertionError(f"accepted: {name}")
            except Refused as e:
                assert e.code in (errno.EPERM, errno.EINVAL, errno.ELOOP, errno.ENOTDIR), (name, e)
        s, reading = r.start_in("inside", "python3", "-c", SWAP, f"/m/{uid}", c.dir, "dir", "link", uid=uid)
        assert os.read(reading, 10) == b"up\n"
        made = 0
        while made < 10:
            try:
                r.create("box", volumes=[(FROM_HOST, f"{path}/{uid}/t", "/x", 0)])
            except Refused:
                continue
            made += 1
            _, out = r.shell("box", "cat /x/canary; echo owned > /x/owned", uid=uid)
            c.check(out)
            r.delete("box")
        os.close(reading)
        s.close()
    r.delete("inside")


@case
def E11_host_path_not_allowlisted():
    with Canary() as c, tempfile.TemporaryDirectory(dir="/var/tmp") as d:
        os.makedirs(os.path.join(d, "ok"))
        os.symlink(c.dir, os.path.join(d, "link"))
        os.symlink("/", os.path.join(d, "ok", "root"))
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(os.path.join(d, "docker.sock"))
        paths = (c.dir, "/", "/etc", d + "/..", d + "/ok/../..", os.path.join(d, "link"),
                 os.path.join(d, "ok", "root"), os.path.join(d, "ok", "root", "etc"), d + "x",
                 os.path.join(d, "docker.sock"), "/var/run/docker.sock", "/proc/self/root", "relative", "//etc",
                 d + "/./ok")
        with Runner("--allow-path", d) as r:
            r.create("fine", volumes=[(FROM_HOST, os.path.join(d, "ok"), "/m", 1)])
            led_away(r, c, os.path.join(d, "ok"))
            for path in paths:
                for how in ({"volumes": [(FROM_HOST, path, "/m", 0)]}, {"rootfs": DIR, "directory": path}):
                    try:
                        r.create("box", **how)
                        raise AssertionError(f"accepted: {path}")
                    except Refused as e:
                        assert e.code in (errno.EPERM, errno.EINVAL, errno.ELOOP, errno.ENOTDIR), (path, e)
        os.chmod(d, 0o755)
        with Server("--set", f"storage.allowed_host_paths={d}") as s:
            for path in paths:
                for image in (None, f"dir:{path}"):
                    more = {"image": {"uri": image}} if image else {
                        "volumes": [{"name": "v", "host": {"path": path}, "mountPath": "/m"}]}
                    answer = s.create(**more)
                    assert 400 <= answer.status < 500, (path, image, answer.status, answer.body)
            for name in ("..", ".", "../sandboxes", "a/b", "/etc", "a\0b", "", "x" * 300, "-", "A_b"):
                answer = s.create(volumes=[{"name": "v", "pvc": {"claimName": name}, "mountPath": "/m"}])
                assert 400 <= answer.status < 500, (name, answer.status, answer.body)
            for target in ("/proc", "/proc/self", "/sys", "/dev", "/dev/pts", "/", "/../x", "relative", "/a/../b"):
                answer = s.create(volumes=[{"name": "v", "pvc": {"claimName": "v"}, "mountPath": target}])
                assert 400 <= answer.status < 500, (target, answer.status, answer.body)
        listener.close()
        c.check()


@case
def E12_open_by_handle_at():
    product().tries("E12")


@case
def E13_mknod_and_raw_disk():
    product().tries("E13")


@case
def E14_remount_read_write():
    product().tries("E14", "/usr", "/usr/bin", "/proc/sys", "/sys", "/dev")
    with tempfile.TemporaryDirectory(dir="/var/tmp") as d, Runner("--allow-path", d) as r:
        os.chmod(d, 0o777)
        volume(r, "v")
        os.chmod(os.path.join(r.state, "volumes", "v"), 0o777)
        r.create("box", readonly=True, volumes=[(FROM_HOST, d, "/mnt", 1), (FROM_STORE, "v", "/srv", 1)])
        tries_in(r, "box", "E14", "/", "/mnt", "/srv", "/etc", "/usr")
        assert os.listdir(d) == [] and os.listdir(os.path.join(r.state, "volumes", "v")) == []


@case
def E15_double_chroot():
    product().tries("E15", "CANARY")


@case
def E16_proc_root_of_others():
    product().tries("E16", "CANARY")


@case
def E17_overlay_marks():
    with Canary() as c:
        box = product().box()
        product().tries("E17", c.dir, box=box)
        # nothing that the sandbox wrote is a mark for the overlay below it
        top = os.path.join(product().server.state, "sandboxes", box)
        for place, dirs, files in os.walk(top):
            for name in dirs + files:
                path = os.path.join(place, name)
                if not os.path.islink(path):
                    marks = [m for m in os.listxattr(path) if m in ("user.overlay.redirect", "user.overlay.metacopy")]
                    assert not any(c.dir.encode() in os.getxattr(path, m) for m in marks), (path, marks)
        with Runner() as r:
            for name in ("lower", "upper"):
                os.makedirs(os.path.join(layer(r, name), "dir"))
            with open(os.path.join(r.state, "layers", "lower", "dir", "plain"), "w", encoding="ascii") as f:
                f.write("x")
            upper = os.path.join(r.state, "layers", "upper", "dir")
            for target in (c.dir, "/../../../../.." + c.dir, "/"):
                for mark in ("user.overlay.redirect", "user.overlay.metacopy", "trusted.overlay.redirect"):
                    os.setxattr(upper, mark, target.encode())
                try:
                    r.create("box", rootfs=LAYERS, layers=["upper", "lower"])
                    _, out = probe_in(r, "box", "cat", "/dir/canary")
                    _, more = probe_in(r, "box", "ls", "/dir")
                    c.check(out + more)
                    r.delete("box")
                except Refused:
                    pass  # as good
        c.check()


BOMB = "a file that is all hole"  # among the kinds of members; its target is its size


def archive(path, members):
    with tarfile.open(path, "w", format=tarfile.PAX_FORMAT) as tar:
        for name, kind, target, mode in members:
            info = tarfile.TarInfo(name)
            info.type, info.mode, data = tarfile.REGTYPE if kind == BOMB else kind, mode, b""
            if kind == tarfile.REGTYPE:
                data = b"owned"
            elif kind in (tarfile.CHRTYPE, tarfile.BLKTYPE):
                info.devmajor, info.devminor = target
            elif kind == BOMB:  # GNU's format 1.0: the map comes first, and of the data there is none
                info.name, data = "GNUSparseFile.0/" + name, f"1\n{target}\n0\n".encode().ljust(512, b"\0")
                info.pax_headers = {"GNU.sparse.major": "1", "GNU.sparse.minor": "0", "GNU.sparse.name": name,
                                    "GNU.sparse.realsize": str(target)}
            else:
                info.linkname = target
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))


def image_import(state, name, tarball):
    """Did it take it?"""
    done = subprocess.run([os.path.join(BUILD, "opensandbox-server"), "--state-dir", state, "image", "import", name,
                           tarball], check=False, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    return done.returncode == 0


def taken_bytes(top):
    """On disk, whatever sizes say."""
    return sum(os.lstat(os.path.join(place, name)).st_blocks * 512 for place, dirs, files in os.walk(top)
               for name in dirs + files)


def devices_and_a_bomb(tarball, r):
    """An archive that is taken as an image: its devices open nothing, and its hole fills nothing."""
    disk = os.stat("/").st_dev
    nodes = [("mem", tarfile.CHRTYPE, (1, 1)), ("zero", tarfile.CHRTYPE, (1, 5)), ("kmsg", tarfile.CHRTYPE, (1, 11)),
             ("loop-control", tarfile.CHRTYPE, (10, 237)), ("disk", tarfile.BLKTYPE, (os.major(disk), os.minor(disk))),
             ("loop0", tarfile.BLKTYPE, (7, 0))]
    huge, limit = 1 << 40, 32 << 20
    archive(tarball, [("nodes", tarfile.DIRTYPE, "", 0o777), ("fine", tarfile.REGTYPE, "", 0o666),
                      ("bomb", BOMB, huge, 0o666)] + [(f"nodes/{name}", kind, number, 0o666)
                                                      for name, kind, number in nodes])
    assert image_import(r.state, "odd", tarball), "the attempt came to nothing by itself"
    image = os.path.join(r.state, "layers", "rootfs-odd")
    assert os.stat(os.path.join(image, "bomb")).st_size == huge
    assert taken_bytes(image) < 1 << 20, taken_bytes(image)
    assert all(stat.S_IFMT(os.lstat(os.path.join(image, "nodes", name)).st_mode) in (stat.S_IFCHR, stat.S_IFBLK)
               for name, _, _ in nodes)
    for uid in users():
        r.create("odd", rootfs=LAYERS, layers=["rootfs-odd"], disk_bytes=limit)
        assert probe_in(r, "odd", "cat", "/fine", uid=uid) == (0, "owned")
        held(uid, *probe_in(r, "odd", "E18", *(f"/nodes/{name}" for name, _, _ in nodes), uid=uid))
        # written to, it is copied to the sandbox's own disk, as far as there is room
        probe_in(r, "odd", "touch", "/bomb", uid=uid)
        assert r.stat("odd").disk_bytes <= limit
        assert taken_bytes(os.path.join(r.state, "sandboxes", "odd")) <= limit + (1 << 20)
        r.delete("odd")
    assert taken_bytes(image) < 1 << 20, taken_bytes(image)


@case
def E18_archive_traversal():
    """`image import` unpacks what a stranger packed; files of a form go where the sandbox itself may write."""
    with Canary() as c, tempfile.TemporaryDirectory(dir="/var/tmp") as d:
        tarball, state = os.path.join(d, "t.tar"), os.path.join(d, "state")
        os.mkdir(state)
        up = "../" * 12
        members = [
            (up + c.path.lstrip("/"), tarfile.REGTYPE, "", 0o644), (c.path, tarfile.REGTYPE, "", 0o644),
            ("link", tarfile.SYMTYPE, c.dir, 0o777), ("link/canary", tarfile.REGTYPE, "", 0o644),
            ("link/new", tarfile.REGTYPE, "", 0o644), ("hard", tarfile.LNKTYPE, c.path, 0o644),
            ("hard", tarfile.REGTYPE, "", 0o644), ("a/b/../../../../new", tarfile.REGTYPE, "", 0o644),
            ("rel", tarfile.SYMTYPE, up + c.dir.lstrip("/"), 0o777), ("rel/new", tarfile.REGTYPE, "", 0o644),
            ("link/mem", tarfile.CHRTYPE, (1, 1), 0o666), ("rel/loop", tarfile.BLKTYPE, (7, 0), 0o666),
            ("link/bomb", BOMB, 1 << 40, 0o666), ("fine", tarfile.REGTYPE, "", 0o644)]
        for i in range(len(members)):
            archive(tarball, members[i:] + members[:i])
            image_import(state, f"i{i}", tarball)
            c.check()
            assert sorted(os.listdir(d)) == ["state", "t.tar"], os.listdir(d)
        # nor does it help to unpack it inside
        p = product()
        box = p.box()
        with open(tarball, "rb") as f:
            p.upload(box, "/tmp/t.tar", f.read())
        for uid in users():
            _, out = p.run(box, f"mkdir /tmp/{uid}; cd /tmp/{uid}; tar -xPf ../t.tar; python3 -c 'import tarfile; "
                                "tarfile.open(\"../t.tar\").extractall()'; "
                                f"cat {c.path} link/canary hard rel/canary", uid)
            c.check(out)
        # what came in all the same stays inside: the secret is in no layer
        for place, _, files in os.walk(os.path.join(state, "layers")):
            for name in files:
                path = os.path.join(place, name)
                if stat.S_ISREG(os.lstat(path).st_mode):
                    assert os.lstat(path).st_ino != os.lstat(c.path).st_ino, path
        with Runner() as r:
            devices_and_a_bomb(tarball, r)


@case
def X16_host_files_for_root_alone():
    """The host image shows the machine's /usr, with owners that are nobody inside: what only the host's root may read
    is closed to the sandbox's. The /usr is one of our mount namespace, with such files in it."""
    secret = "secret-" + os.urandom(8).hex()
    with tempfile.TemporaryDirectory(dir="/var/tmp") as d:
        place = os.path.join(d, "up", "share", "osb-closed")
        os.makedirs(os.path.join(place, "dir"))
        os.mkdir(os.path.join(d, "work"))
        modes = {"anyone": 0o644, "owner": 0o600, "group": 0o640, "program": 0o700, "nobody": 0o000, "dir/file": 0o644}
        for name, mode in modes.items():
            with open(os.path.join(place, name), "w", encoding="ascii") as f:
                f.write(secret)
            os.chmod(f.name, mode)
        os.chmod(os.path.join(place, "dir"), 0o700)
        subprocess.run(["mount", "-t", "overlay", "overlay", "-o",
                        f"lowerdir=/usr,upperdir={d}/up,workdir={d}/work", "/usr"], check=True)
        try:
            with Runner() as r:
                r.create("box")
                closed = [f"/usr/share/osb-closed/{name}" for name in modes if name != "anyone"]
                for uid in users():
                    assert probe_in(r, "box", "cat", "/usr/share/osb-closed/anyone", uid=uid) == (0, secret)
                    held(uid, *probe_in(r, "box", "E18", *closed, uid=uid))
                    _, out = r.shell("box", "cd /usr/share/osb-closed; chown 0 *; chmod 777 *; cp -a . /tmp/c; cat * "
                                            "dir/* /tmp/c/*", uid=uid)
                    assert out.count(secret) <= 2, out  # the one for anyone, and its copy
                    assert r.shell("box", "rm -rf /tmp/c", uid=uid)[0] == 0
        finally:
            subprocess.run(["umount", "-l", "/usr"], check=True)


def misled(p, box, c, uid):
    """Links, pipes and sockets that somebody inside has left for the file API."""
    at = f"/tmp/{uid}"
    names = ["/proc/1/root" + c.path, "/proc/self/root" + c.path, "/" + "../" * 20 + c.path.lstrip("/"), c.path,
             c.path.replace("/", "%2f"), "/tmp/%2e%2e" + c.path, "/x" * 3000, "/tmp/" + "n" * 300, "/tmp/a%00b",
             at + "/l0", at + "/l9", "/dev/zero", "/dev/tty", at + "/fifo", "/proc/1/mem", "/proc/kmsg", at + "/sock"]
    code, out = p.run(box, f"mkdir {at} && cd {at} && mkfifo fifo && ln -s {c.path} l0 && "
                           "for i in 0 1 2 3 4 5 6 7 8; do ln -s l$i l$((i+1)); done; python3 -c 'import socket; "
                           "socket.socket(socket.AF_UNIX).bind(\"sock\")'", uid)
    assert code == 0, out
    for name in names:
        for path in (f"/files/download?path={name}", f"/files/info?path={name}"):
            answer = p.server.execd(box, "GET", path)
            assert c.secret.encode() not in answer.body, name
            assert answer.status >= 400 or path.startswith("/files/info"), (path, answer.status)
    for path in (c.path, "/proc/1/root" + c.path, at + "/l9"):
        try:
            p.upload(box, path, b"owned")
        except AssertionError:
            pass  # refused
        p.server.execd(box, "DELETE", f"/files?path={path}")
        p.server.execd(box, "POST", "/files/permissions", {path: {"mode": 777}})
        p.server.execd(box, "POST", "/files/replace", {path: {"old": "canary", "new": "owned"}})
        c.check()


@case
def E19_file_api_traversal():
    p = product()
    with Canary() as c:
        for uid in users():
            box = p.box()
            misled(p, box, c, uid)
        # and past the route that leads there
        prefix, headers = p.server.endpoint(box)
        for path in (f"{prefix}/../../../../etc/shadow", f"{prefix}/..%2f..%2fetc/shadow", f"{prefix}//etc/shadow"):
            answer = p.server.call("GET", path, fields=headers)
            assert answer.status in (400, 404), (path, answer.status, answer.body)
        assert p.run(box, "echo alive") == (0, "alive")


@case
def E20_setuid_programs():
    """They do nothing in a sandbox; and those that a sandbox leaves do nothing for users of the host."""
    capability = bytes.fromhex("0100000200202000000000000000000000000000")  # cap_sys_admin, cap_setpcap: effective
    with Runner() as r:
        where = volume(r, "v")
        for name, mode in (("owner", 0o4755), ("group", 0o2755), ("capable", 0o755)):
            shutil.copyfile(PROBE, os.path.join(where, name))
            os.chmod(os.path.join(where, name), mode)
        os.setxattr(os.path.join(where, "capable"), "security.capability", capability)
        r.create("box", volumes=[(FROM_STORE, "v", "/v", 0)])
        code, out = r.shell("box", "cp /v/owner /tmp/mine && chmod 6755 /tmp/mine && ls -l /tmp/mine")
        assert code == 0 and "rwsr-sr-x" in out, out
        for uid in users():
            for path in ("/v/owner", "/v/group", "/v/capable", "/tmp/mine"):
                assert r.run("box", path, "who", uid=uid) == (0, f"uid {uid} euid {uid} egid {uid}\n"), path
                _, out = r.run("box", path, "E38", uid=uid)
                _, plain = probe_in(r, "box", "E38", uid=uid)
                assert out == plain and (uid == 0 or "CapEff:\t0000000000000000" in out), (path, out, plain)
    p = product()
    box = p.box(volumes=[{"name": "v", "pvc": {"claimName": "e20"}, "mountPath": "/v"}])
    assert p.run(box, f"cp {PROBE_INSIDE} /v/rootme; cp {PROBE_INSIDE} /rootme; chmod 6755 /v/rootme /rootme")[0] == 0
    for name in ("layers", "volumes", "sandboxes", "host", "trash", "server"):
        path = os.path.join(p.server.state, name)
        code = f"import os, sys\ntry:\n    os.stat({path!r} + '/.')\nexcept PermissionError: sys.exit(7)\n"
        assert as_host_user(code) == 7, f"a user of the host gets into {path}"
    left = [os.path.join(place, "rootme") for place, _, files in os.walk(p.server.state) if "rootme" in files]
    assert len(left) == 2, left
    for path in left:
        st = os.lstat(path)
        assert st.st_mode & stat.S_ISUID, "the attempt came to nothing by itself"
        code = f"import os, sys\ntry:\n    os.execv({path!r}, ['x', 'who'])\nexcept PermissionError: sys.exit(7)\n"
        assert as_host_user(code) == 7, f"a user of the host may run {path}, owner {st.st_uid}"


LEASE = """
import fcntl, os, signal, sys
for path in sys.argv[1:]:
    fd = os.open(path, os.O_RDONLY)
    for kind in fcntl.F_WRLCK, fcntl.F_RDLCK:
        try:
            fcntl.fcntl(fd, fcntl.F_SETLEASE, kind)
            print('WORKED', path, flush=True)
        except OSError as e:
            print('refused', path, e.strerror, flush=True)
print('end', flush=True)
signal.pause()
"""


@case
def X14_files_others_wait_for():
    """Who has a lease on a file makes everybody wait who opens it. Its owner can have one; of root's files in a volume
    that is the sandbox's root, also where it may only read them."""
    with Canary() as c, boxes.Runner() as r:
        shared = os.path.join(volume(r, "v"), "shared")
        shutil.copy(c.path, shared)
        r.create("box", volumes=[(boxes.FROM_STORE, "v", "/v", True)])
        for uid in users():
            s, reading = r.start_in("box", "python3", "-c", LEASE, "/v/shared", "/etc/passwd", uid=uid)
            out = b""
            while b"end" not in out:
                more = os.read(reading, 1000)
                assert more, out
                out += more
            os.close(os.open(shared, os.O_RDWR | os.O_NONBLOCK))  # EWOULDBLOCK, were there a lease
            assert b"WORKED" not in out and out.count(b"refused") == 4, out
            os.close(reading)
            s.close()


main()
