#!/usr/bin/env python3
"""Puts the kernels' drivers into a C file, so that execd carries them: images need nothing but the language.

    bundle.py OUT.c NAME=FILE...        NAME=DIR makes one program of a directory of Python modules
"""

import os
import sys

LOADER = '''import sys, types
for _n, _s in SOURCES:
    _m = types.ModuleType(_n)
    sys.modules[_n] = _m
    exec(compile(_s, "<%s>" % _n, "exec"), _m.__dict__)
sys.modules["osb_kernel"].main()
'''

# in the order of their needs
PYTHON_MODULES = ("wire", "display", "magics", "shell", "ipython", "kernel")


def python_program(directory):
    sources = []
    for name in PYTHON_MODULES:
        with open(os.path.join(directory, name + ".py"), encoding="utf-8") as source:
            sources.append(("osb_" + name, source.read()))
    return "SOURCES = " + repr(sources) + "\n" + LOADER


def main():
    out, *entries = sys.argv[1:]
    rows, blobs = [], []
    for entry in entries:
        name, path = entry.split("=", 1)
        if os.path.isdir(path):
            data = python_program(path).encode("utf-8")
        else:
            with open(path, "rb") as source:
                data = source.read()
        assert b"\0" not in data
        symbol = "kernel_" + name.replace("-", "_").replace(".", "_")
        body = ",".join(str(byte) for byte in data)
        blobs.append("static const unsigned char %s[] = {%s,0};" % (symbol, body))
        rows.append('\t{ "%s", (const char *)%s, %d },' % (name, symbol, len(data)))
    with open(out, "w", encoding="ascii") as file:
        file.write('#include "execd/kernels.h"\n\n' + "\n".join(blobs) +
                   "\n\nconst struct kernel_program kernel_programs[] = {\n" + "\n".join(rows) +
                   "\n\t{ 0, 0, 0 },\n};\n")


main()
