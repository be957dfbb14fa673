#!/usr/bin/env python3
"""Interfaces of the kernel: settings, cgroups, namespaces, tracing, terminals, rights. As root of a sandbox and as an
ordinary user; the canary, the host's settings and PID 1 must not notice.
timeout: 300"""

import re

from escapelib import *  # noqa: F401,F403  pylint: disable=wildcard-import,unused-wildcard-import
from boxes import Runner

setup()

# chown, dac_override, fowner, fsetid, kill, setgid, setuid, setpcap, net_bind_service, sys_chroot, setfcap
KEPT = sum(1 << n for n in (0, 1, 3, 4, 5, 6, 7, 8, 10, 18, 31))


@case
def E21_kernel_helpers():
    settings = ["kernel/core_pattern", "kernel/modprobe", "fs/suid_dumpable", "kernel/panic", "net/ipv4/ip_forward"]

    def look():
        found = []
        for name in settings:
            if os.path.exists(f"/proc/sys/{name}"):
                with open(f"/proc/sys/{name}", encoding="ascii") as f:
                    found.append(f.read())
        return found

    before = look()
    product().tries("E21", "'|CANARY'")
    assert look() == before


@case
def E22_cgroup_release_agent():
    product().tries("E22")


@case
def E23_cgroup_climb():
    product().tries("E23")


@case
def E24_unshare_newuser():
    product().tries("E24")


@case
def E25_bpf_and_perf():
    product().tries("E25")


@case
def E26_io_uring():
    product().tries("E26")


@case
def E27_userfaultfd():
    product().tries("E27")


@case
def E28_keys_across_sandboxes():
    product().tries("E28")


@case
def E29_ptrace_of_execd_and_siblings():
    """execd and those of its processes that wait for commands; and as an ordinary user, what root runs."""
    p = product()
    box = p.box()
    p.server.execd(box, "POST", "/command", {"command": "tail -f /dev/null", "background": True})
    for out in p.tries("E29", box=box):
        attacked = int(re.search(r"(\d+) processes of execd attacked", out).group(1))
        assert attacked >= 3, out  # PID 1, who waits for us, who waits for the other
    code, out = p.run(box, "P=$(pgrep -o tail); for f in mem maps environ fd/0 exe; do cat /proc/$P/$f && echo GOT; "
                           "done; kill -9 $P && echo GOT; kill -9 1 && echo GOT; ls /proc/$P/fd && echo GOT", uid=1000)
    assert "GOT" not in out, out
    # nor can PID 1 be stopped or killed from inside by its own root
    code, out = p.run(box, "kill -9 1; kill -STOP 1; kill -SEGV 1; kill -TRAP 1; echo done")
    assert p.run(box, "echo alive") == (0, "alive"), out


@case
def E30_modules_kexec_reboot_ports():
    product().tries("E30")


@case
def E32_typing_into_terminals():
    product().tries("E32")


@case
def E35_reading_the_kernel():
    product().tries("E35")


@case
def E36_new_mount_api():
    product().tries("E36")


def rights(output):
    """The last of each line about rights."""
    return dict(re.findall(r"^(\w+):\t(\w+)$", output, re.MULTILINE))


@case
def E37_restrictions_outlive_an_exec():
    p = product()
    box = p.box()
    for uid in users():
        code, out = p.probe(box, "E37", uid=uid)
        held(uid, code, out)
        if "no landlock" in out:
            print("# the kernel lacks Landlock; the rest of the case was run")
        before, after = (out.split("bpf")[0], out.rsplit("NoNewPrivs", 1)[1])
        assert rights(before)["Seccomp"] == "2" and "Seccomp:\t2" in after, out
        assert out.count("NoNewPrivs:\t1") == 2, out


@case
def E38_capabilities_as_promised():
    p = product()
    box = p.box()
    for uid, kept in zip(users(), (KEPT, 0)):
        code, out = p.probe(box, "E38", uid=uid)
        held(uid, code, out)
        found = rights(out)
        for name in ("CapPrm", "CapEff"):
            assert int(found[name], 16) == kept, (uid, name, found)
        assert int(found["CapBnd"], 16) == KEPT, found
        for name in ("CapInh", "CapAmb"):
            assert int(found[name], 16) == 0, (uid, name, found)
        assert found["NoNewPrivs"] == "1" and found["Seccomp"] == "2", found
    with Runner() as r:
        item = r.create("box")
        with open(f"/proc/{item.pid}/status", encoding="ascii") as f:
            found = rights(f.read())
        assert int(found["CapEff"], 16) == int(found["CapPrm"], 16) == int(found["CapBnd"], 16) == KEPT, found


@case
def X02_files_that_execd_trusts():
    """A sandbox's root may spoil what execd reads, an ordinary user not even that; execd answers all the same, and the
    gateway with it."""
    p = product()
    spoils = ("rm /etc/passwd /etc/group; mkfifo /etc/passwd /etc/group",
              "rm /etc/passwd; ln -s /dev/zero /etc/passwd; rm /etc/group; ln -s group /etc/group",
              "rm /etc/passwd /etc/group; mkdir /etc/passwd; ln -s /proc/self/mem /etc/group",
              "head -c 100M /dev/zero | tr '\\0' : > /etc/passwd; rm -rf /tmp; ln -s /proc/1/root /tmp")
    for uid, spoil in ((uid, spoil) for uid in users() for spoil in spoils):
        box = p.box()
        code, out = p.run(box, spoil + " && echo SPOILED", uid)
        assert ("SPOILED" in out) == (uid == 0) or "ln -s /proc/1/root" in spoil, (uid, spoil, out)
        for method, path, body in (("GET", "/files/info?path=/opt/probe", None), ("GET", "/metrics", None),
                                   ("POST", "/command", {"command": "echo x", "uid": 1000}),
                                   ("POST", "/files/permissions", {"/opt/probe": {"owner": "sandbox"}}),
                                   ("POST", "/session", {"cwd": "/tmp/x"})):
            answer = p.server.execd(box, method, path, body)
            assert answer.status in (200, 400, 404, 500), (spoil, path, answer.status, answer.body)
        assert p.server.run(box, "echo alive") == "alive"
        p.server.delete(box)


@case
def X03_isolated_sessions_are_not_a_way_out():
    """Where a sandbox cannot isolate further it says so; no namespace is made behind the filter's back."""
    p = product()
    box = p.box()
    answer = p.server.execd(box, "GET", "/v1/isolated/capabilities")
    assert answer.status == 200, (answer.status, answer.body)
    answer = answer.json
    for uid in users():
        made = p.server.execd(box, "POST", "/v1/isolated/session", {"workspace": {"path": "/tmp"}, "uid": uid})
        if not answer["available"]:
            assert made.status in (500, 501, 503), (made.status, made.body)
            assert answer["message"], answer
            continue
        assert made.status == 201, (made.status, made.body)
        run = f"/v1/isolated/session/{made.json['session_id']}/run"
        for attempt in ("E12", "E13", "E21 /tmp/x", "E23", "E24", "E29", "E36", "E39"):
            told = p.server.execd(box, "POST", run, {"code": f"{PROBE_INSIDE} {attempt}"})
            assert b"WORKED" not in told.body and b"refused" in told.body, (attempt, told.body)


@case
def X07_a_crash_starts_nothing_outside():
    """The kernel can be told to hand core dumps to a program that it starts as the host's root; it does so whatever
    the limit of core dumps, unless that is 1."""
    product().tries("X07")
    with Runner() as r:
        r.create("box")
        tries_in(r, "box", "X07")


@case
def X10_room_for_compiled_filters():
    """The machine has one part of memory for compiled filters, charged to nobody; without room in it there is no new
    sandbox."""
    product().tries("X10")
    with Runner() as r:
        r.create("box")
        tries_in(r, "box", "X10")


@case
def X12_modules_nobody_asked_for():
    """Some commands have the kernel load a module before it looks at who wants it."""
    product().tries("X12")
    with Runner() as r:
        r.create("box")
        tries_in(r, "box", "X12")


@case
def X13_the_kernels_map_stays_whole():
    """Pages of secret memory are taken out of the kernel's map of memory, which never grows together again."""
    product().tries("X13")
    with Runner() as r:
        r.create("box")
        tries_in(r, "box", "X13")


main()
