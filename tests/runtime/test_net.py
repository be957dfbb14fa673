#!/usr/bin/env python3
"""The network of sandboxes: out through the host, and nowhere else. The host here is a network
namespace of the test's own, with a second one for the world behind it.
timeout: 600"""

import os
import re
import socket
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from boxes import *  # noqa: E402,F403

need_root()

HOST4, WORLD4, HOST6, WORLD6 = "198.51.100.1", "198.51.100.2", "2600::1", "2600::2"
INNER = ["10.9.9.9", "172.16.0.9", "192.168.1.1", "100.64.0.9", "100.100.100.200", "169.254.169.254",
         "10.255.255.53"]
INNER6 = ["fd00:ec2::254", "fd00::99", "64:ff9b::a09:909"]

# answers every connection with the address it came from; answers datagrams to port 53, where every name is that of a
# metadata service
WORLD = """
import selectors, socket, struct, sys
def answer(question):
    if len(question) < 17: return b"answer"
    kind = struct.unpack_from("!H", question, len(question) - 4)[0]
    data = {1: socket.inet_pton(2, "169.254.169.254"), 28: socket.inet_pton(10, "fd00:ec2::254")}.get(kind)
    head = question[:2] + struct.pack("!5H", 0x8180, 1, 1 if data else 0, 0, 0) + question[12:]
    return head + (struct.pack("!3HIH", 0xc00c, kind, 1, 60, len(data)) + data if data else b"")
s = selectors.DefaultSelector()
tcp = socket.create_server(("::", 7000), family=socket.AF_INET6, dualstack_ipv6=True)
udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
udp.bind(("10.255.255.53", 53))
spoof = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
spoof.bind(("0.0.0.0", 7777))
for x in (tcp, udp, spoof): s.register(x, selectors.EVENT_READ)
print("up", flush=True)
while True:
    for key, _ in s.select():
        if key.fileobj is tcp:
            c, a = tcp.accept()
            c.sendall(a[0].replace("::ffff:", "").encode())
            c.close()
        elif key.fileobj is udp:
            d, a = udp.recvfrom(1000)
            udp.sendto(answer(d), a)
        else:
            d, a = spoof.recvfrom(1000)
            print("got", a[0], d.decode(), flush=True)
"""

# what became of a connection, in one word
TRY = """
import socket, sys
host, port = sys.argv[1], int(sys.argv[2])
try:
    s = socket.create_connection((host, port), timeout=10)
    print("connected", s.recv(100).decode())
except OSError as e:
    print("refused", e.errno or e)
"""


def sh(*argv):
    subprocess.run(argv, check=True)


class World:
    def __enter__(self):
        self.process = subprocess.Popen(["unshare", "-n", sys.executable, "-c", (
            "import subprocess, sys\nsubprocess.run(['ip', 'link', 'set', 'lo', 'up'], check=True)\n"
            "print('born', flush=True)\nsys.stdin.readline()\n" + WORLD)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert self.process.stdout.readline() == "born\n"
        pid = str(self.process.pid)
        sh("ip", "link", "add", "up0", "type", "veth", "peer", "name", "up1", "netns", pid)
        sh("ip", "addr", "add", HOST4 + "/24", "dev", "up0")
        sh("ip", "-6", "addr", "add", HOST6 + "/64", "dev", "up0", "nodad")
        sh("ip", "link", "set", "up0", "up")
        enter = ["nsenter", "-t", pid, "-n"]
        sh(*enter, "ip", "addr", "add", WORLD4 + "/24", "dev", "up1")
        sh(*enter, "ip", "-6", "addr", "add", WORLD6 + "/64", "dev", "up1", "nodad")
        sh(*enter, "ip", "link", "set", "up1", "up")
        for a in INNER:
            sh(*enter, "ip", "addr", "add", a + "/32", "dev", "lo")
        for a in INNER6:
            sh(*enter, "ip", "-6", "addr", "add", a + "/128", "dev", "lo", "nodad")
        sh("ip", "route", "add", "default", "via", WORLD4)
        sh("ip", "-6", "route", "add", "default", "via", WORLD6)
        self.process.stdin.write("go\n")
        self.process.stdin.flush()
        assert self.process.stdout.readline() == "up\n"
        return self

    def __exit__(self, *_):
        sh("ip", "link", "del", "up0")  # a namespace takes its time to go, and its links with it
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()
        self.process.stdin.close()


def attempt(r, box, host, port=7000):
    code, out = r.run(box, "python3", "-c", TRY, host, str(port))
    assert code == 0, out
    return out.strip()


@case
def out_through_the_host():
    with World(), Runner("--dns", "10.255.255.53", "--ipv6") as r:
        assert r.features & CAN_NETWORK, r.missing
        item = r.create("n", network=True)
        assert item.network == 1 and item.ip4 and item.ip6 and item.ifname.decode().startswith("osb")
        assert attempt(r, "n", WORLD4) == f"connected {HOST4}"
        assert attempt(r, "n", WORLD6) == f"connected {HOST6}"
        assert r.shell("n", "cat /etc/resolv.conf")[1] == "nameserver 10.255.255.53\n"
        code, out = r.shell("n", "cat /etc/hosts")
        assert item.ip4.decode() in out and item.ip6.decode() in out, out
        r.delete("n")
        deadline = time.monotonic() + DEADLINE_S
        while item.ifname.decode() in links():
            assert time.monotonic() < deadline


@case
def private_and_metadata_addresses_are_closed():
    with World(), Runner("--ipv6") as r:
        r.create("n", network=True)
        for address in INNER + INNER6:
            # the way is there: the host itself gets an answer
            with socket.create_connection((address, 7000), timeout=10) as s:
                assert s.recv(100)
            result = attempt(r, "n", address)
            assert result.startswith("refused"), (address, result)


@case
def a_name_leads_to_no_metadata_service_either():
    ask = "import socket\nprint(*sorted({a[4][0] for a in socket.getaddrinfo('metadata.google.internal', 7000)}))"
    with World(), Runner("--dns", "10.255.255.53", "--ipv6") as r:
        r.create("n", network=True)
        for uid in (0, 1000):
            assert r.run("n", "python3", "-c", ask, uid=uid) == (0, "169.254.169.254 fd00:ec2::254\n")
            code, out = r.run("n", "python3", "-c", TRY, "metadata.google.internal", "7000", uid=uid)
            assert code == 0 and out.startswith("refused"), out


@case
def only_the_nameserver_port_is_open():
    ask = ("import socket\ns = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\ns.settimeout(10)\n"
           "s.sendto(b'q', ('10.255.255.53', 53))\nprint(s.recv(100))")
    with World(), Runner("--dns", "10.255.255.53") as r:
        r.create("n", network=True)
        assert r.run("n", "python3", "-c", ask) == (0, "b'answer'\n")
        assert attempt(r, "n", "10.255.255.53").startswith("refused")


@case
def the_operator_can_open_a_network():
    with World(), Runner("--open-net", "10.9.0.0/16") as r:
        r.create("n", network=True)
        assert attempt(r, "n", "10.9.9.9") == f"connected {HOST4}"
        assert attempt(r, "n", "192.168.1.1").startswith("refused")


@case
def the_host_is_closed():
    with World(), Runner() as r:
        item = r.create("n", network=True)
        gateway = item.ip4.decode().rsplit(".", 2)[0] + ".0.1"
        with socket.create_server(("0.0.0.0", 7001)) as listener:
            listener.settimeout(0)
            for address in (HOST4, gateway, "127.0.0.1"):
                result = attempt(r, "n", address, 7001)
                assert result.startswith("refused"), (address, result)
            try:
                listener.accept()
                raise AssertionError("somebody came through")
            except BlockingIOError:
                pass


@case
def sandboxes_do_not_see_each_other():
    serve = ("import socket\ns = socket.create_server(('0.0.0.0', 7002))\nprint('up', flush=True)\n"
             "c, a = s.accept()\nprint('came', a, flush=True)")
    with World(), Runner() as one, Runner() as two:
        a = one.create("a", network=True)
        s, reading = one.start_in("a", "python3", "-c", serve)
        assert os.read(reading, 10) == b"up\n"
        for r, name in ((one, "b"), (two, "c")):
            r.create(name, network=True)
            result = attempt(r, name, a.ip4.decode(), 7002)
            assert result.startswith("refused"), result
        # its own loopback and address work, and the runner's dial
        assert attempt(one, "a", a.ip4.decode(), 7003).startswith("refused")
        with one.dial("a", 7002) as c:
            select.select([], [c], [], DEADLINE_S)
            assert c.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR) == 0
        assert b"came ('127.0.0.1'" in os.read(reading, 100)
        os.close(reading)
        s.close()


@case
def nothing_comes_in_from_outside():
    with World() as w, Runner() as r:
        item = r.create("n", network=True)
        sh("nsenter", "-t", str(w.process.pid), "-n", "ip", "route", "add", "10.200.0.0/16", "via", HOST4)
        s, reading = r.start_in("n", "python3", "-c", "import socket\ns = socket.create_server(('0.0.0.0', 7002))\n"
                                "print('up', flush=True)\ns.accept()\nprint('came', flush=True)")
        assert os.read(reading, 10) == b"up\n"
        p = subprocess.run(["nsenter", "-t", str(w.process.pid), "-n", sys.executable, "-c", (
            "import socket\ntry:\n    socket.create_connection(('%s', 7002), timeout=2)\n    print('in')\n"
            "except OSError as e:\n    print('no')" % item.ip4.decode())], stdout=subprocess.PIPE, text=True)
        assert p.stdout == "no\n", p.stdout
        os.close(reading)
        s.close()


@case
def forged_sources_are_dropped():
    send = ("import socket, struct, sys\ns = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_RAW)\n"
            "src, dst, word = sys.argv[1:4]\n"
            "udp = struct.pack('!HHHH', 9, 7777, 8 + len(word), 0) + word.encode()\n"
            "ip = struct.pack('!BBHHHBBH4s4s', 0x45, 0, 20 + len(udp), 1, 0, 64, 17, 0, socket.inet_aton(src), "
            "socket.inet_aton(dst))\ns.sendto(ip + udp, (dst, 0))\n")
    with World() as w, Runner() as r:
        a, b = r.create("a", network=True), r.create("b", network=True)
        # with the host's rights in the sandbox's network: more than a tenant ever has
        enter = ["nsenter", "-t", str(a.pid), "-n", sys.executable, "-c", send]
        for source in (b.ip4.decode(), "198.51.100.77", HOST4):
            sh(*enter, source, WORLD4, "forged")
        sh(*enter, a.ip4.decode(), WORLD4, "honest")
        line = w.process.stdout.readline()
        assert line == f"got {HOST4} honest\n", line


@case
def root_inside_cannot_change_the_network():
    with World(), Runner() as r:
        r.create("n", network=True)
        for command in ("ip addr add 1.2.3.4/32 dev eth0", "ip link set eth0 down", "ip route del default",
                        "ip link add d0 type dummy", "nft add table inet x", "sysctl -w net.ipv4.ip_forward=1"):
            code, out = r.shell("n", command)
            assert code != 0, (command, out)
        assert attempt(r, "n", WORLD4).startswith("connected")


@case
def without_nft_there_is_no_network():
    hide = ["unshare", "-m", "sh", "-c", "mount --bind /dev/null /usr/sbin/nft && exec \"$@\"", "sh"]
    with Runner(prefix=hide) as r:
        assert not r.features & CAN_NETWORK and "nft" in r.missing
        try:
            r.create("n", network=True)
            raise AssertionError("a network without a filter")
        except Refused as e:
            assert e.code == errno.ENOTSUP, e
        r.create("m")
        assert links() == ["lo"], links()


@case
def a_flushed_filter_comes_back():
    with World(), Runner() as r:
        r.create("n", network=True)
        for command in (["flush", "ruleset"], ["flush", "table", "inet", f"opensandbox_{r.tag}"],
                        ["delete", "table", "inet", f"opensandbox_{r.tag}"]):
            sh("nft", *command)
            deadline = time.monotonic() + DEADLINE_S
            while b"masquerade" not in subprocess.run(["nft", "list", "ruleset"],
                                                      stdout=subprocess.PIPE).stdout:
                assert time.monotonic() < deadline, command
                r.list()
            assert attempt(r, "n", "10.9.9.9").startswith("refused")
            assert attempt(r, "n", WORLD4).startswith("connected")


def table_handle(r):
    """A number that every new making of the runner's table changes; None while it is not there."""
    rules = subprocess.run(["nft", "-a", "list", "ruleset"], stdout=subprocess.PIPE, text=True, check=True).stdout
    found = re.search(rf"table inet opensandbox_{r.tag} {{ # handle (\d+)", rules)
    return found and "masquerade" in rules and found.group(1)


def settles(r):
    """The table is back, and stays as it is."""
    deadline, last = time.monotonic() + DEADLINE_S, None
    while True:
        now = [table_handle(r) for _ in range(5) if r.list() is not None]
        if now == [last] * 5 and last is not None:
            return
        last = now[-1]
        assert time.monotonic() < deadline, now


@case
def several_changes_in_a_row_are_answered_once():
    with World(), Runner() as r:
        r.create("n", network=True)
        r.process.send_signal(signal.SIGSTOP)  # so that it finds them all at once
        for _ in range(5):
            sh("nft", "flush", "ruleset")
            sh("nft", "add", "table", "inet", f"opensandbox_{r.tag}")
        r.process.send_signal(signal.SIGCONT)
        settles(r)
        assert attempt(r, "n", "10.9.9.9").startswith("refused")


@case
def it_knows_its_own_changes_in_a_container():
    """Where its process numbers are not the kernel's own."""
    with Runner(prefix=["unshare", "--pid", "--fork", "--kill-child", "--mount-proc"]) as r:
        sh("nft", "flush", "ruleset")
        settles(r)
        r.prefix = []  # the one around it takes no signal
        r.restart()


@case
def nothing_is_left_at_the_end():
    with Runner() as r:
        r.create("n", network=True)
        tag = r.tag
    rules = subprocess.run(["nft", "list", "ruleset"], stdout=subprocess.PIPE, text=True).stdout
    assert tag not in rules, rules
    deadline = time.monotonic() + DEADLINE_S
    while any(n.startswith("osb" + tag) for n in links()):
        assert time.monotonic() < deadline, links()


main()
