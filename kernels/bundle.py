#!/usr/bin/env python3
"""Puts the kernels' drivers into a C file, so that execd carries them: images need nothing but the language.

    bundle.py OUT.c OUT.d NAME=FILE...        python and go are directories
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
PYTHON_MODULES = ("wire", "streams", "display", "magics", "shell", "ipython", "sql", "jupyter", "kernel")


def python_program(directory, read):
    sources = [("osb_" + name, read(os.path.join(directory, name + ".py")).decode("utf-8"))
               for name in PYTHON_MODULES]
    return ("SOURCES = " + repr(sources) + "\n" + LOADER).encode("utf-8")


def go_program(directory, read):
    """A shell script that unpacks the Go sources and builds them."""
    files = []
    for name in sorted(os.listdir(directory)):
        if name.endswith(".go"):
            place = "osb/osb.go" if name == "osb.go" else name  # a package of its own
            text = read(os.path.join(directory, name)).decode("utf-8")
            assert "OSB_END" not in text
            files.append('cat >"$dir/%s" <<\'OSB_END\'\n%sOSB_END\n' % (place, text))
    script = read(os.path.join(directory, "start.sh")).decode("utf-8")
    return script.replace("#files\n", "".join(files)).encode("utf-8")


PROGRAMS = {"python": python_program, "go": go_program}


def main():
    out, depfile, *entries = sys.argv[1:]
    rows, blobs, used = [], [], []

    def read(path):
        used.append(path)
        with open(path, "rb") as source:
            return source.read()

    for entry in entries:
        name, path = entry.split("=", 1)
        data = PROGRAMS[name](path, read) if name in PROGRAMS else read(path)
        assert b"\0" not in data
        body = ",".join(str(byte) for byte in data)
        blobs.append("static const unsigned char kernel_%s[] = {%s,0};" % (name, body))
        rows.append('\t{ "%s", (const char *)kernel_%s, %d },' % (name, name, len(data)))
    with open(out, "w", encoding="ascii") as file:
        file.write('#include "execd/kernels.h"\n\n' + "\n".join(blobs) +
                   "\n\nconst struct kernel_program kernel_programs[] = {\n" + "\n".join(rows) +
                   "\n\t{ 0, 0, 0 },\n};\n")
    with open(depfile, "w", encoding="utf-8") as file:
        file.write("%s: %s\n" % (out, " ".join(used)))


main()
