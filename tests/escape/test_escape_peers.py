#!/usr/bin/env python3
"""Namespaces, network and neighbours: the host, other sandboxes, former tenants.
timeout: 600"""

import contextlib
import glob
import signal
import subprocess

from escapelib import *  # noqa: F401,F403  pylint: disable=wildcard-import,unused-wildcard-import
from boxes import EXITED, FROM_STORE, Runner, census

setup()


def says_nothing(reading):
    """Of the one that listened: nobody came to it either."""
    os.set_blocking(reading, False)
    try:
        assert os.read(reading, 100) == b""
    except BlockingIOError:
        pass
    os.close(reading)


@case
def E31_socket_families():
    product().tries("E31")
    with Runner() as r:
        r.create("box", network=True)
        tries_in(r, "box", "E31")


@case
def E39_setns():
    product().tries("E39")


@case
def E40_abstract_sockets():
    """Of the host and of another sandbox: names without a file belong to a network namespace."""
    serve = ("import socket\ns = socket.socket(socket.AF_UNIX)\ns.bind('\\0osb-peer')\ns.listen()\n"
             "print('up', flush=True)\ns.accept()\nprint('CAME', flush=True)\n")
    listener = socket.socket(socket.AF_UNIX)
    listener.bind("\0osb-canary")
    listener.listen()
    with Runner() as r:
        for network in (False, True):
            r.create("one", network=network)
            r.create("two", network=network)
            s, reading = r.start_in("one", "python3", "-c", serve)
            assert os.read(reading, 100) == b"up\n"
            tries_in(r, "two", "E41", "@osb-peer", "@osb-canary")
            says_nothing(reading)
            s.close()
            r.delete("one")
            r.delete("two")
    nobody_came(listener)
    listener.close()


@case
def E41_sockets_of_the_host():
    with Canary() as c:
        path = os.path.join(c.dir, "s")
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(path)
        listener.listen()
        os.chmod(path, 0o777)
        c.before = c.look()
        p = product()
        other = p.box()
        state = p.server.state
        product().tries("E41", path, os.path.join(state, "sock", other), os.path.join(state, "runner.sock"),
                        "/run/opensandbox/runner.sock", f"/proc/1/root{path}")
        nobody_came(listener)
        listener.close()
        c.check()


@case
def E42_metadata_services():
    addresses = ["169.254.169.254", "169.254.170.2", "100.100.100.200", "168.63.129.16", "192.0.0.192",
                 "fd00:ec2::254"]
    argv = [x for a in addresses for x in (a, "80")]
    listeners = []
    with Runner("--ipv6") as r:
        try:
            for a in addresses:
                six = ":" in a
                subprocess.run(["ip", "addr", "add", a + ("/128" if six else "/32"), "dev", "lo"] +
                               (["nodad"] if six else []), check=True)
                listeners.append(socket.create_server((a, 80), family=socket.AF_INET6 if six else socket.AF_INET))
            for box, network in (("on", True), ("off", False)):
                r.create(box, network=network)
                for uid in users():
                    code, out = probe_in(r, box, "E42", *argv, uid=uid)
                    held(uid, code, out)
                    assert out.count("refused") == len(addresses), out
            nobody_came(*listeners)
        finally:
            for s in listeners:
                s.close()
            for a in addresses:
                subprocess.run(["ip", "addr", "del", a + ("/128" if ":" in a else "/32"), "dev", "lo"], check=False)


@case
def E43_host_and_neighbours():
    """Loopback and addresses of the host, the gateway, other sandboxes; TCP and UDP."""
    lan = "198.51.100.7"
    subprocess.run(["ip", "addr", "add", lan + "/32", "dev", "lo"], check=True)
    every = socket.create_server(("::", 0), family=socket.AF_INET6, dualstack_ipv6=True)
    port = every.getsockname()[1]
    datagrams = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
    datagrams.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
    datagrams.bind(("::", port))
    serve = ("import select, socket\n"
             f"s = socket.create_server(('::', {port}), family=socket.AF_INET6, dualstack_ipv6=True)\n"
             f"u = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)\nu.bind(('::', {port}))\n"
             "print('up', flush=True)\nselect.select([s, u], [], [])\nprint('CAME', flush=True)\n")
    try:
        with Runner("--ipv6") as r:
            peer = r.create("peer", network=True)
            s, reading = r.start_in("peer", "python3", "-c", serve)
            assert os.read(reading, 100) == b"up\n"
            r.create("box", network=True)
            _, route = r.shell("box", "ip route show default || cat /proc/net/route")
            gateway = route.split(" via ")[1].split()[0] if " via " in route else "10.200.0.1"
            addresses = [lan, gateway, peer.ip4.decode(), peer.ip6.decode(), "10.200.255.254", "0.0.0.0", "fe80::1"]
            tries_in(r, "box", "E42", *(x for a in addresses for x in (a, str(port))))
            addresses += ["224.0.0.1", "224.0.0.251", "255.255.255.255", "ff02::1", "ff02::2", "ff02::fb"]
            for uid in users():
                code, out = probe_in(r, "box", "E43-udp", *(x for a in addresses for x in (a, str(port))), uid=uid)
                assert code == 0, out
            # one's own loopback is one's own: nobody listens there
            tries_in(r, "box", "E42", "127.0.0.1", str(port))
            says_nothing(reading)
            s.close()
        nobody_came(every, datagrams)
    finally:
        every.close()
        datagrams.close()
        subprocess.run(["ip", "addr", "del", lan + "/32", "dev", "lo"], check=False)


@case
def E44_route_localnet():
    listener = socket.create_server(("127.0.0.1", 0))
    with Runner() as r:
        item = r.create("box", network=True)
        for name in ("all", item.ifname.decode()):
            with open(f"/proc/sys/net/ipv4/conf/{name}/route_localnet", encoding="ascii") as f:
                assert f.read() == "0\n", name
        tries_in(r, "box", "E44", str(listener.getsockname()[1]))
    nobody_came(listener)
    listener.close()


@contextlib.contextmanager
def way_out():
    """A network behind the host, with 198.51.100.9 and 2001:db8::9 in it; a socket that sees all frames that leave."""
    subprocess.run(["ip", "link", "add", "out0", "type", "veth", "peer", "name", "out1"], check=True)
    try:
        for words in ("link set out1 up", "link set out0 up", "addr add 198.51.100.1/24 dev out0",
                      "addr add 2001:db8::1/64 dev out0 nodad",
                      "neigh add 198.51.100.9 lladdr 02:00:00:00:00:09 dev out0 nud permanent",
                      "neigh add 2001:db8::9 lladdr 02:00:00:00:00:09 dev out0 nud permanent"):
            subprocess.run(["ip", *words.split()], check=True)
        with socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3)) as frames:
            frames.bind(("out1", 0))
            yield frames
    finally:
        subprocess.run(["ip", "link", "del", "out0"], check=True)


def leave(frames, text):
    """All frames up to one with this in it."""
    seen = [b""]
    while text not in seen[-1]:
        frames.settimeout(boxes.DEADLINE_S)
        seen.append(frames.recv(65536))
    return seen


SEND = "import socket, sys; socket.socket(int(sys.argv[2]), 2).sendto(b'honest', (sys.argv[1], 7))"


@case
def E45_forged_addresses():
    """Of another sandbox, of the host, of nobody: from a source that is not its own nothing leaves the host, nor does
    it get to anybody on it."""
    sink = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
    sink.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
    sink.bind(("::", 0))
    port = str(sink.getsockname()[1])
    with way_out() as frames, Runner("--ipv6") as r:
        item = r.create("box", network=True)
        peer = r.create("peer", network=True)
        for to, family in (("198.51.100.9", socket.AF_INET), ("2001:db8::9", socket.AF_INET6)):
            assert r.run("box", "python3", "-c", SEND, to, str(int(family))) == (0, "")
            leave(frames, b"honest")
        for forged in ("192.0.2.1", peer.ip4.decode(), "198.51.100.1", "127.0.0.1"):
            for to in (peer.ip4.decode(), "198.51.100.1", "198.51.100.9"):
                tries_in(r, "box", "E45", forged, to, port)
        for forged in ("2001:db8::7", peer.ip6.decode(), "2001:db8::1", "fe80::7", "::1"):
            for to in (peer.ip6.decode(), "2001:db8::1", "2001:db8::9"):
                tries_in(r, "box", "E45", forged, to, port)
        _, out = r.shell("box", "ip addr 2>/dev/null || cat /proc/net/fib_trie /proc/net/if_inet6")
        assert item.ip4.decode() in out, out
        # one that is not forged comes after all that are
        assert r.run("box", "python3", "-c", SEND, "198.51.100.9", str(int(socket.AF_INET))) == (0, "")
        assert not any(b"forged" in frame for frame in leave(frames, b"honest"))
    nobody_came(sink)
    sink.close()


LEASES = ("import select, socket\n"
          "four = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\nfour.bind(('0.0.0.0', 67))\n"
          "six = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)\nsix.bind(('::', 547))\n"
          "print('up', flush=True)\nselect.select([four, six], [], [])\nprint('CAME', flush=True)\n")


@case
def E45_who_asks_for_an_address_is_not_heard():
    """DHCP: neither a service of the host nor one in another sandbox is asked, so neither can answer."""
    four, six = socket.socket(socket.AF_INET, socket.SOCK_DGRAM), socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
    four.bind(("0.0.0.0", 67))
    six.bind(("::", 547))
    with Runner("--ipv6") as r:
        peer = r.create("peer", network=True)
        s, reading = r.start_in("peer", "python3", "-c", LEASES)
        assert os.read(reading, 10) == b"up\n"
        r.create("box", network=True)
        everybody = ["255.255.255.255", "10.200.0.1", "10.200.255.255", peer.ip4.decode()]
        asked = [x for a in everybody for x in (a, "67")] + [x for a in ("ff02::1:2", "ff05::1:3", peer.ip6.decode())
                                                             for x in (a, "547")]
        for uid in users():
            code, out = probe_in(r, "box", "E43-udp", *asked, uid=uid)
            assert code == 0 and "datagram to 255.255.255.255 port 67" in out, out
        says_nothing(reading)
        s.close()
    nobody_came(four, six)
    four.close()
    six.close()


def processes_of(uid_base, before=()):
    """(pid's status file, name) of all processes with an id of that range"""
    found = []
    for path in glob.glob("/proc/[0-9]*/status"):
        try:
            with open(path, encoding="utf-8") as f:
                text = f.read()
        except OSError:
            continue
        uid = int(next(line for line in text.splitlines() if line.startswith("Uid:")).split()[1])
        if uid_base <= uid < uid_base + 65536 and path not in before:
            found.append((path, text.split("\n", 1)[0]))
    return found


@case
def E63_survivor_after_delete():
    with Runner() as r:
        for how in ("running", "paused", "killed"):
            before = set(glob.glob("/proc/[0-9]*/status"))
            item = r.create("box")
            for uid in users():
                s, reading = r.start_in("box", "probe", "survivor", uid=uid, program=PROBE)
                assert os.read(reading, 100) == b"hiding\n", uid
                os.close(reading)
                s.close()
            assert len(processes_of(item.uid_base, before)) >= 3
            if how == "paused":
                r.pause("box")
            if how == "killed":
                os.kill(item.pid, signal.SIGKILL)
                r.event("box", EXITED)
                assert processes_of(item.uid_base, before) == []
            r.delete("box")
            assert processes_of(item.uid_base, before) == [], how
        assert not any(census(r).values()), census(r)


FLOOD = """
import errno, socket, sys
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
sent = refused = 0
for port in range(1000, 1000 + int(sys.argv[1])):
    try:
        s.sendto(b'x', ('198.51.100.9', port))
        sent += 1
    except OSError as e:  # word of a refusal before
        refused += 1
print(sent, refused)
"""


TRACKED = "/proc/net/nf_conntrack"


def connections_of(address):
    """Lines about it in the host's table of connections."""
    if not os.path.exists(TRACKED):
        return []
    with open(TRACKED, encoding="ascii") as f:
        return [line for line in f if f"={address} " in line]


def tracked_inside(pid):
    """How many connections a sandbox's own network namespace remembers."""
    return int(subprocess.run(["nsenter", "-t", str(pid), "-n", "cat", "/proc/sys/net/netfilter/nf_conntrack_count"],
                              check=True, stdout=subprocess.PIPE, text=True).stdout)


def no_word_of_the_last_environment():
    p, word = product(), "word-" + os.urandom(8).hex()
    first = p.box(env={"LAST": word})
    assert p.run(first, "env; export MORE=$LAST; env")[1].count(word) == 3
    p.server.delete(first)
    second = p.box()
    for uid in users():
        _, out = p.run(second, "env; set; cat /proc/*/environ /proc/*/cmdline 2>/dev/null | tr '\\0' '\\n'", uid)
        assert "PATH=" in out and word not in out, out
    p.server.delete(second)


@case
def E65_nothing_of_the_last_tenant():
    """Files, processes, shared memory, environment; ids, address and what the host remembers of its connections."""
    with way_out(), Runner("--pool", "1") as r:
        ranges, addresses = set(), set()
        for _ in range(6):
            item = r.create("same", network=True)
            address = item.ip4.decode()
            assert item.uid_base not in ranges, "a range of ids used again at once"
            assert address not in addresses, "an address used again at once"
            ranges.add(item.uid_base)
            addresses.add(address)
            assert connections_of(address) == [] and tracked_inside(item.pid) == 0
            for uid in users():
                code, out = probe_in(r, "same", "E65", uid=uid)
                assert code == 0, out
            for uid in (1000, 0):
                code, out = probe_in(r, "same", "poison", uid=uid)
            assert code == 0, out
            assert r.run("same", "python3", "-c", FLOOD, "5") == (0, "5 0\n")
            assert connections_of(address) or not os.path.exists(TRACKED), "the search finds nothing"
            r.delete("same")
    no_word_of_the_last_environment()
    if not os.path.exists(TRACKED):
        raise Lacks(f"a list of connections ({TRACKED}); all else was looked at")


WATCH = """
import ctypes, os, select, struct, sys
libc = ctypes.CDLL(None)
fd = libc.inotify_init()
assert all(libc.inotify_add_watch(fd, d.encode(), 0xfff) > 0 for d in sys.argv[1:])
print('up', flush=True)
while not os.path.exists('/tmp/stop'): select.select([fd], [], [], 0.02)
while select.select([fd], [], [], 0)[0]:
    data = os.read(fd, 65536)
    while data:
        n = struct.unpack_from('I', data, 12)[0]
        print('SAW', data[16:16 + n].rstrip(b'\\0').decode())
        data = data[16 + n:]
print('end', flush=True)
"""


def spied(r, uid):
    s, reading = r.start_in("spy", "python3", "-c", WATCH, "/usr/bin", "/usr/sbin", "/usr/games", uid=uid)
    assert os.read(reading, 10) == b"up\n"
    assert r.run("other", "factor", "6") == (0, "6: 2 3\n")
    subprocess.run(["factor", "6"], check=True, stdout=subprocess.DEVNULL)
    assert r.shell("spy", "cat /proc/diskstats /proc/partitions", uid=uid) == (0, "")
    r.shell("spy", "echo > /tmp/stop")
    out = b""
    while b"end" not in out:
        more = os.read(reading, 65536)
        assert more, out
        out += more
    os.close(reading)
    s.close()
    assert b"factor" not in out, out
    lock = "exec 9< /usr/bin/factor; flock -xn 9 && echo mine; "
    s, reading = r.start_in("spy", "sh", "-c", lock + "exec tail -f /dev/null", uid=uid)
    assert os.read(reading, 10) == b"mine\n"
    assert r.shell("other", lock, uid=uid) == (0, "mine\n")
    assert subprocess.run(["sh", "-c", lock], stdout=subprocess.PIPE, check=True).stdout == b"mine\n"
    os.close(reading)
    s.close()


@case
def X04_what_others_run_is_not_seen():
    """The host image is everybody's, its inodes are not: events on them tell of nobody else, locks bind nobody else.
    Nor is there to see how much others read and write on disks that are theirs alone."""
    with Runner() as r:
        for uid in users():
            r.create("spy")
            r.create("other", disk_bytes=32 << 20)
            spied(r, uid)
            r.delete("spy")
            r.delete("other")


@case
def X05_descriptors_through_a_shared_volume():
    """A socket in a shared volume passes descriptors between those who share it; the host is not among them."""
    with Canary() as c, Runner() as r:
        path = os.path.join(r.state, "volumes", "v")
        volume(r, "v")
        os.chmod(path, 0o777)
        r.create("one", volumes=[(FROM_STORE, "v", "/v", 0)])
        r.create("two", volumes=[(FROM_STORE, "v", "/v", 0)])
        send = ("import socket, os, sys\ns = socket.socket(socket.AF_UNIX)\ns.bind(sys.argv[1])\ns.listen()\n"
                "os.chmod(sys.argv[1], 0o777)\nprint('up', flush=True)\nc, _ = s.accept()\n"
                "socket.send_fds(c, [b'x'], [os.open('/', os.O_RDONLY)])\nc.recv(1)\n")
        take = ("import socket, os, sys\ns = socket.socket(socket.AF_UNIX)\ns.connect(sys.argv[2])\n"
                "fd = socket.recv_fds(s, 1, 1)[1][0]\n"
                "for up in ('', '../' * 20):\n    try:\n        print(open(os.open(up + sys.argv[1].lstrip('/'), "
                "os.O_RDONLY, dir_fd=fd)).read())\n    except OSError as e: print('refused', e)\n")
        for uid in users():
            s, reading = r.start_in("one", "python3", "-c", send, f"/v/{uid}", uid=uid)
            assert os.read(reading, 10) == b"up\n"
            _, out = r.run("two", "python3", "-c", take, c.path, f"/v/{uid}", uid=uid)
            assert out.count("refused") == 2, out
            c.check(out)
            os.close(reading)
            s.close()


LOCK = """
import fcntl, os, signal, stat
taken = 0
for top in ('/sys', '/dev', '/usr/lib/os-release', '/etc', '/proc/cmdline', '/proc/interrupts'):
    paths = [top] if os.path.isfile(top) or not os.path.isdir(top) else [
        os.path.join(place, name) for place, _, names in os.walk(top) for name in names]
    for path in paths:
        try:
            fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY)
            fcntl.lockf(fd, fcntl.LOCK_SH, 1, 7)
            taken += 1
        except OSError:
            pass
print('taken', taken, flush=True)
signal.pause()
"""


@case
def X15_locks_in_the_way_of_the_host():
    """Locks are kept with the inode, in a list that everybody walks who closes the file, and in nobody's limit of
    memory: what a sandbox can lock must not be a file that the host uses."""
    with Runner() as r:
        for uid in users():
            r.create("box")
            s, reading = r.start_in("box", "python3", "-c", LOCK, uid=uid)
            out = os.read(reading, 100).decode()
            assert int(out.split()[1]) > 20, out
            ours = {(os.major(st.st_dev), os.minor(st.st_dev)) for st in map(os.stat, ("/", "/sys", "/dev", "/usr"))}
            with open("/proc/locks", encoding="ascii") as f:
                locks = [line.split() for line in f if line.split()[-2:] == ["7", "7"]]
            assert len(locks) > 20, "the search finds nothing"
            for words in locks:
                major, minor, _ = words[-3].split(":")
                assert (int(major, 16), int(minor, 16)) not in ours, words
            os.close(reading)
            s.close()
            r.delete("box")


@case
def X06_connections_of_all_taken():
    """The host keeps one table of connections for everybody; one sandbox gets a share of it."""
    def tracked():
        with open("/proc/sys/net/netfilter/nf_conntrack_count", encoding="ascii") as f:
            return int(f.read())

    count = ("table inet t { set s { type ifname; flags dynamic; }\n"
             "chain c { add @s { iifname ct count over 9 } drop; }\n}")
    if subprocess.run(["unshare", "-n", "nft", "-f", "-"], input=count, text=True, check=False).returncode != 0:
        raise Lacks("counting of connections (nft_connlimit)")
    with way_out(), Runner() as r:
        with open("/proc/sys/net/netfilter/nf_conntrack_udp_timeout", "w", encoding="ascii") as f:
            f.write("600")  # in our network namespace: what is counted stays
        for uid in users():
            r.create("flood", network=True)
            r.create("other", network=True)
            before = tracked()
            code, out = r.run("flood", "python3", "-c", FLOOD, "12000", uid=uid)
            assert code == 0, out
            taken = tracked() - before
            assert 4096 < taken <= 8192 + 64, (taken, out)
            code, out = r.run("other", "python3", "-c", FLOOD, "100")
            assert (code, out) == (0, "100 0\n"), out
            assert tracked() - before >= taken + 90, (tracked(), before, taken)
            r.delete("flood")
            r.delete("other")


STRANGERS = """
import socket
def opened(family, level, option):
    s = socket.socket(family, socket.SOCK_DGRAM)
    s.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, b'eth0')
    s.setsockopt(level, option, 1)  # IP_RECVERR: hear of what would be dropped
    return s
sent, errors, kept, link = 0, set(), [], socket.if_nametoindex('eth0')
for i in range(2000):
    if i % 100 == 0:  # what waits for an answer takes room in the socket
        s4 = opened(socket.AF_INET, socket.IPPROTO_IP, 11)
        s6 = opened(socket.AF_INET6, socket.IPPROTO_IPV6, 25)
        kept += [s4, s6]
    for s, *to in (s4, f'10.9{i >> 8}.{i & 255}.7', 9), (s4, f'239.1.{i >> 8}.{i & 255}', 9), (
            s6, f'fe80::7:{i:x}', 9, 0, link), (s6, f'ff02::7:{i:x}', 9, 0, link):
        try:
            s.sendto(b'x', socket.MSG_DONTROUTE, tuple(to))
            sent += 1
        except OSError as e:
            errors.add(e.strerror)
print(sent, *errors)
"""


@case
def X08_neighbours_of_all_taken():
    """The machine has one table of neighbours for all its namespaces, with 1024 places: who sends to addresses on his
    link that nobody has fills it, and then nobody finds anybody."""
    ip = "addr add 198.51.100.1/24 dev out0", "link set out0 up", "link set out1 up"
    for ipv6 in ((), ("--ipv6",)):
        subprocess.run(["ip", "link", "add", "out0", "type", "veth", "peer", "name", "out1"], check=True)
        try:
            for words in ip:
                subprocess.run(["ip", *words.split()], check=True)
            with Runner(*ipv6) as r, socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
                s.setsockopt(socket.IPPROTO_IP, 11, 1)
                for uid in users():
                    r.create("box", network=True)
                    code, out = r.run("box", "python3", "-c", STRANGERS, uid=uid)
                    assert code == 0 and int(out.split()[0]) >= 4000, out
                    assert "No buffer space" not in out, out
                    for i in range(2, 60):  # the host still finds who is new to it
                        s.sendto(b"x", (f"198.51.100.{i + uid // 10}", 9))
                    _, out = r.shell("box", "ip neigh show dev eth0")
                    assert "INCOMPLETE" not in out and "PERMANENT" in out, out
                    r.delete("box")
        finally:
            subprocess.run(["ip", "link", "del", "out0"], check=True)


main()
