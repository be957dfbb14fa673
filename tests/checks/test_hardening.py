#!/usr/bin/env python3
"""scripts/check-hardening finds what it looks for: a program with everything passes, one that lacks a thing fails."""

import json
import os
import shutil
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
CHECK = os.path.join(ROOT, "scripts", "check-hardening")
PROGRAM = """
#include <stdio.h>
int main(int argc, char **argv)
{
    char text[64];
    snprintf(text, (size_t)argc * 8, "%s", argv[0]);
    return puts(text) < 0;
}
"""
GOOD = ["-O2", "-U_FORTIFY_SOURCE", "-D_FORTIFY_SOURCE=2", "-fPIE", "-pie", "-fstack-protector-strong",
        "-Wl,-z,relro,-z,now", "-Wl,-z,noexecstack"]
CASES = {
    "a hardened one": ([], None),
    "a fixed address": (["-fno-PIE", "-no-pie"], "not position independent"),
    "writable relocations": (["-Wl,-z,norelro"], "no RELRO"),
    "late binding": (["-Wl,-z,lazy"], "symbols bound late"),
    "an executable stack": (["-Wl,-z,execstack"], "executable stack"),
    "an unguarded stack": (["-fno-stack-protector"], "no stack protector"),
    "unchecked calls": (["-U_FORTIFY_SOURCE"], "no checked library calls"),
    "a library path": (["-Wl,-rpath,/nowhere"], "library path built in"),
}


def main():
    failed = False
    top = tempfile.mkdtemp(prefix="osb-hardening-")
    os.mkdir(os.path.join(top, "meson-info"))
    program, source = os.path.join(top, "program"), os.path.join(top, "program.c")
    with open(source, "w", encoding="ascii") as f:
        f.write(PROGRAM)
    with open(os.path.join(top, "meson-info", "intro-targets.json"), "w", encoding="ascii") as f:
        json.dump([{"type": "executable", "build_by_default": True, "filename": [program]}], f)
    for name, (flags, says) in CASES.items():
        subprocess.run(["gcc", "-w", "-o", program, source, *GOOD, *flags], check=True, timeout=60)
        done = subprocess.run([CHECK, top], stdout=subprocess.PIPE, text=True, check=False, timeout=60, cwd="/")
        good = done.returncode == 0 if says is None else done.returncode == 1 and says in done.stdout
        failed |= not good
        print(f"{'ok' if good else 'not ok'} {name}" + ("" if good else f"\n{done.stdout}"), flush=True)
    shutil.rmtree(top)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
