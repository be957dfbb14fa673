#!/usr/bin/env python3
"""The static subset: the programs that run inside sandboxes need nothing of the image they run in, shown by
running them in an empty chroot."""

import os
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "api"))

from harness import BUILD, Program, case, main, request, sanitized, skip  # noqa: E402

# The most they may weigh, stripped, with the C library of Debian 12. Later ones bring more of themselves along:
# 140 KB with glibc 2.41.
LIBC = tuple(map(int, os.confstr("CS_GNU_LIBC_VERSION").split()[1].split(".")))
GROWN = 100000 if LIBC > (2, 36) else 0
PROGRAMS = {"http-demo-static": 1200000 + GROWN, "execd": 1500000 + GROWN}
LIMIT_OWN_KIB = 192


if os.geteuid() != 0:
    skip("chroot needs root")
if sanitized("http-demo-static"):
    skip("sanitizers cannot be linked statically")


@case
def needs_no_interpreter_and_no_name_service():
    for name in PROGRAMS:
        path = os.path.join(BUILD, name)
        headers = subprocess.run(["readelf", "-lW", path], stdout=subprocess.PIPE, text=True,
                                 check=True).stdout
        assert "INTERP" not in headers, name
        symbols = subprocess.run(["nm", path], stdout=subprocess.PIPE, text=True, check=True).stdout
        for word in ("__nss_lookup", "getaddrinfo", "SSL_new", "curl_easy", "vfscanf"):
            assert word not in symbols, (name, word)


@case
def stays_small():
    with tempfile.TemporaryDirectory() as directory:
        for name, most in PROGRAMS.items():
            out = os.path.join(directory, name)
            subprocess.run(["strip", "-o", out, os.path.join(BUILD, name)], check=True)
            assert os.path.getsize(out) <= most, (name, os.path.getsize(out))


@case
def runs_in_an_empty_chroot_with_little_memory():
    for name in PROGRAMS:
        root = tempfile.mkdtemp(prefix="osb-empty-")
        shutil.copy(os.path.join(BUILD, name), os.path.join(root, "program"))

        def enter(where=root):
            os.chroot(where)
            os.chdir("/")

        with Program(name, "--port", "0", path="/program", preexec_fn=enter, env={}) as server:
            target = "/ping" if name == "execd" else "/"
            assert request(server, "GET", target).status == 200  # not before: it says where it listens, then settles
            assert server.own_kib() <= LIMIT_OWN_KIB, (name, server.own_kib())
        assert sorted(os.listdir(root)) == ["program"], "it left something behind"
        shutil.rmtree(root)


main()
