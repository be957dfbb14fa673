#!/usr/bin/env python3
"""The repository's checks can fail: each is shown a small tree with one fault at a time, and the
same tree without."""

import contextlib
import importlib.machinery
import importlib.util
import io
import json
import os
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

ARCHITECTURE = """
| Room | Level | May include | What |
|---|---|---|---|
| `src/base` | 0 | - | ground |
| `src/codec` | 1 | base | formats |
| `src/io` | 2 | base | loop |
| `src/runner` | 6 | base, codec/msg | program |
| `src/server` | 6 | base, codec, io | program |

| Outside header | Wrapper | Library |
|---|---|---|
| `uv.h` | io | loop |
| `openssl/*` | io/tls | TLS |
"""


def header(path, body=""):
    guard = "OSB_" + path.replace("/", "_").replace(".", "_").upper()
    return f"#ifndef {guard}\n#define {guard}\n\n{body}#endif\n"


GOOD = {
    "docs/ARCHITECTURE.md": ARCHITECTURE,
    "src/base/err.h": header("base/err.h"),
    "src/base/err.c": '#include "base/err.h"\n\n#include <stdio.h>\n#include <sys/stat.h>\n',
    "src/codec/h1.h": header("codec/h1.h", '#include "base/err.h"\n\n'),
    "src/codec/msg.h": header("codec/msg.h"),
    "src/io/loop.h": header("io/loop.h", '#include <uv.h>\n\n'),
    "src/io/tls.c": "#include <openssl/ssl.h>\n",
    "src/server/main.c": '#include "codec/h1.h"\n#include "io/loop.h"\n',
    "src/runner/main.c": '#include "codec/msg.h"\n',
    "tests/unit/test_x.c": '#include "codec/h1.h"\n',
}

C_FILE = "src/base/x.c"


sys.dont_write_bytecode = True
sys.path[:0] = [os.path.join(ROOT, "scripts"), os.path.join(ROOT, "bench", "lib")]

import comments  # noqa: E402
import summary  # noqa: E402


def published():
    """A tree with one report, and all that is said of it."""
    data = {"name": "lifecycle", "title": "Sandboxes", "settings": {}, "notes": [], "absent": {}, "curves": [],
            "machine": {"date": "", "commit": "c", "cores": 2, "cpu": "", "arch": "", "memory_mib": 1024, "kernel": "6",
                        "load": 0}, "profiles": [],
            "goals": [{"what": "ratio", "goal": "≥ 25 ×", "measured": "29.6 ×", "value": 29.6, "met": True, "why": ""}],
            "groups": [{"what": "create to first result, one by one", "unit": "ms", "better": "lower", "who": {
                "opensandbox": {"n": 1, "ok": 1, "median": 2.5, "p95": 2.5, "p99": 2.5}}}]}
    with tempfile.TemporaryDirectory() as tree:
        for path, text in (("README.md", "words\n<!-- figures: x -->\n<!-- end of figures -->\n"),
                           ("docs/benchmarks/lifecycle.json", json.dumps(data))):
            os.makedirs(os.path.dirname(os.path.join(tree, path)), exist_ok=True)
            with open(os.path.join(tree, path), "w", encoding="utf-8") as f:
                f.write(text)
        return summary.texts(tree)


PUBLISHED, PAGE = published(), "docs/benchmarks/lifecycle.md"


def word(*parts):
    """A word that must not stand in this file in one piece."""
    return "".join(parts)


# check, name of the case, files that differ from GOOD, what the check must say (None: nothing)
CASES = [
    ("layers", "good tree", {}, None),
    ("layers", "upward include",
     {"src/base/err.c": '#include "base/err.h"\n#include "io/loop.h"\n'},
     'src/base/err.c:2: base may not include "io/loop.h"'),
    ("layers", "sideways include", {"src/codec/h1.h":
     header("codec/h1.h", '#include "io/loop.h"\n')}, 'codec may not include "io/loop.h"'),
    ("layers", "program includes program", {"src/server/x.h": header("server/x.h"),
     "src/runner/main.c": '#include "server/x.h"\n'}, 'runner may not include "server/x.h"'),
    ("layers", "one header of a room only", {"src/runner/main.c": '#include "codec/h1.h"\n'},
     'runner may not include "codec/h1.h"'),
    ("layers", "blanks do not hide an include", {C_FILE: '  #  include  "io/loop.h"\n'},
     "base may not include"),
    ("layers", "comment does not hide an include", {C_FILE: '#include /* x */ "io/loop.h"\n'},
     "base may not include"),
    ("layers", "include in a comment", {C_FILE: '/*\n#include "io/loop.h"\n*/\n'}, None),
    ("layers", "include by macro", {C_FILE: "#include HEADER\n"}, "name the file plainly"),
    ("layers", "include beside", {C_FILE: '#include "err.h"\n'}, "not written as"),
    ("layers", "include with dots", {C_FILE: '#include "base/../io/loop.h"\n'}, "not written as"),
    ("layers", "include of nothing", {C_FILE: '#include "base/no.h"\n'}, "does not exist"),
    ("layers", "library outside its wrapper", {"src/server/x.c": "#include <uv.h>\n"},
     "src/server/x.c:1: <uv.h> may only be included by io"),
    ("layers", "library outside its file", {"src/io/x.c": "#include <openssl/err.h>\n"},
     "may only be included by io/tls"),
    ("layers", "unknown library", {C_FILE: "#include <glib.h>\n"}, "neither libc's nor"),
    ("layers", "unknown room", {"src/attic/x.c": "int x;\n"}, "no row for src/attic"),
    ("layers", "no room", {"src/x.c": "int x;\n"}, "lies in no room"),
    ("layers", "own header not first",
     {"src/base/err.c": '#include <stdio.h>\n#include "base/err.h"\n'}, "own header"),
    ("layers", "include guard", {"src/base/err.h": "#ifndef ERR_H\n#define ERR_H\n#endif\n"},
     "OSB_BASE_ERR_H"),
    ("layers", "table points up", {"docs/ARCHITECTURE.md":
     ARCHITECTURE.replace("| 1 | base |", "| 1 | base, io |")}, "not downwards"),
    ("layers", "table names nothing", {"docs/ARCHITECTURE.md":
     ARCHITECTURE.replace("| 1 | base |", "| 1 | cellar |")}, "no such room"),
    ("layers", "no table", {"docs/ARCHITECTURE.md": "words\n"}, "no table of rooms"),

    ("banned", "good tree", {}, None),
    ("banned", "call", {C_FILE: "void f(char *a)\n{\n\tstrcpy(a, a);\n}\n"}, f"{C_FILE}:3: strcpy"),
    ("banned", "blank before the bracket", {C_FILE: "int f = atoi (x);\n"}, "atoi"),
    ("banned", "function by name", {C_FILE: "void *f = sprintf;\n"}, "sprintf"),
    ("banned", "shell", {C_FILE: "int f = system(x);\n"}, "starts a shell"),
    ("banned", "behind a comment", {C_FILE: "int f = /* */system(x);\n"}, "starts a shell"),
    ("banned", "longer names", {C_FILE: "int my_atoi(void);\nint system_x(int strcpy_s);\n"}, None),
    ("banned", "comment and string", {C_FILE: '/* strcpy( */ // gets(\nchar *s = "system(";\n'},
     None),
    ("banned", "quote in a comment", {C_FILE: "/* don't */\nint f = usleep(1);\n"}, f"{C_FILE}:2:"),
    ("banned", "member", {C_FILE: "int f = x->system(y) + x.rand();\n"}, None),
    ("banned", "include line", {C_FILE: "#include <system(x)/alloca.h>\n"}, None),
    ("banned", "tests may", {"tests/unit/test_x.c": "int f = atoi(x);\n"}, None),

    ("format", "good tree", {}, None),
    ("format", "trailing blank", {C_FILE: "int x; \n"}, f"{C_FILE}:1: trailing blanks"),
    ("format", "blank in shell", {"scripts/x": "#!/bin/sh\nls \n"}, "scripts/x:2: trailing"),
    ("format", "no last newline", {C_FILE: "int x;"}, "no newline at the end"),
    ("format", "empty end", {C_FILE: "int x;\n\n"}, "empty lines at the end"),
    ("format", "carriage return", {C_FILE: "int x;\r\n"}, "carriage return"),
    ("format", "long line", {C_FILE: "int " + "x" * 100 + ";\n"}, "more than 100 columns"),
    ("format", "tabs count eight", {C_FILE: "\t" * 11 + "int " + "x" * 12 + ";\n"},
     "more than 100 columns"),
    ("format", "long string", {C_FILE: 'char *s = "' + "x" * 100 + '";\n'}, None),
    ("format", "spaces in C", {C_FILE: "void f(void)\n{\n        x;\n}\n"}, "indented with tabs"),
    ("format", "tabs in Python", {"x.py": "if x:\n\ty\n"}, "indented with spaces"),
    ("format", "glued comment", {C_FILE: "/* a\n *b */\n"}, "no blank after the star"),
    ("format", "corpus is free", {"tests/fuzz/corpus/x/a.c": "int x; \r"}, None),

    ("figures", "good tree", PUBLISHED, None),
    ("figures", "another figure in front", {**PUBLISHED, "README.md": PUBLISHED["README.md"].replace("2.50", "2.40")},
     "README.md:3: not what the published figures say"),
    ("figures", "no figure in front", {**PUBLISHED, "README.md": "words\n"}, "no place for the figures"),
    ("figures", "another figure on a page", {**PUBLISHED, PAGE: PUBLISHED[PAGE].replace("29.6", "40")},
     f"{PAGE}:9: not what"),
    ("figures", "no page", {path: text for path, text in PUBLISHED.items() if path != PAGE}, f"{PAGE}:1: not what"),

    ("words", "good tree", {}, None),
    ("words", "place of one machine", {"README.md": word("see /wor", "k/main/x\n")},
     "README.md:1:"),
    ("words", "home", {"x.py": word("open('/hom", "e/kim/x')\n")}, "a path of one machine"),
    ("words", "somebody's home", {"x.py": word("open('/hom", "e/user/x')\n")}, None),
    ("words", "mirror", {"pip.conf": word("https://x.pkg.de", "v/simple/\n")}, "a package mirror"),
    ("words", "password", {"x.sh": word("curl https://me:", "0123456789abcdef0@x/\n")}, "password"),
    ("words", "private key", {"k.pem": word("-----BEGI", "N RSA PRIVATE KEY-----\n")},
     "a private key"),
    ("words", "merge", {"x.md": "a\n" + "<" * 7 + " HEAD\n"}, "x.md:2: an unfinished merge"),
]


# What `make fmt` does to comments: name, before, after.
LONG = "word " * 30
WRAPS = [
    ("fits", "/* short */\nint x; /* also */\n", None),
    ("one line", f"\t/* {LONG}*/\n",
     "\t/* " + "word " * 17 + "word\n\t * " + "word " * 11 + "word */\n"),
    ("glued stars", "/* a\n *b c */\n", "/* a\n * b c */\n"),
    ("paragraphs apart", f"/* one\n *\n * {LONG}\n */\n",
     "/* one\n *\n * " + "word " * 18 + "word\n * " + "word " * 10 + "word\n */\n"),
    ("examples stay", f"/* {LONG}\n *\n *\tcode(   a);\n */\n",
     "/* " + "word " * 18 + "word\n * " + "word " * 10 + "word\n *\n *\tcode(   a);\n */\n"),
    ("behind code", "\tint x; /* " + LONG + "*/\n",
     "\t/* " + "word " * 17 + "word\n\t * " + "word " * 11 + "word */\n\tint x;\n"),
    ("strings stay", 'char *s = "/* ' + LONG + '*/";\n', None),
]


def run_wrap(before, after):
    after = before if after is None else after
    once = comments.fix(before)
    if once != after:
        return f"wanted:\n{after}\ngot:\n{once}"
    return None if comments.fix(once) == once else "not the same when done twice"


def load(check):
    """The check as a module: starting an interpreter for each case would take most of the time."""
    name = f"check-{check}"
    loader = importlib.machinery.SourceFileLoader(name, os.path.join(ROOT, "scripts", name))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader(name, loader))
    loader.exec_module(module)
    return module


def run_check(check, tree):
    """(exit code, output) of the check on a tree."""
    said = io.StringIO()
    sys.argv = [f"check-{check}", "--root", tree]
    with contextlib.redirect_stdout(said):
        code = CHECKS[check].main()
    return code, said.getvalue()


def run_case(check, files, expected):
    """None when the check said what it should, else what it said."""
    with tempfile.TemporaryDirectory() as tree:
        for path, text in {**GOOD, **files}.items():
            whole = os.path.join(tree, path)
            os.makedirs(os.path.dirname(whole), exist_ok=True)
            with open(whole, "w", newline="") as f:
                f.write(text)
        code, said = run_check(check, tree)
    if expected is None:
        return None if code == 0 else said
    return None if code == 1 and expected in said else f"wanted: {expected}\n{said}"


# Only the reference version of clang-format is asked, so only where it is can this fail.
LAYOUT = {".clang-format": "BasedOnStyle: LLVM\n", C_FILE: "int   x;\n"}

CHECKS = {name: load(name) for name in ("layers", "banned", "format", "words", "figures")}


def main():
    failed = 0
    if CHECKS["format"].reference_tool():
        CASES.append(("format", "layout", LAYOUT, f"{C_FILE}:1: not as clang-format"))
    for check, name, files, expected in CASES:
        wrong = run_case(check, files, expected)
        if wrong is not None:
            failed += 1
            print(wrong)
        print(f"{'not ok' if wrong is not None else 'ok'} {check}: {name}")
    for name, before, after in WRAPS:
        wrong = run_wrap(before, after)
        if wrong is not None:
            failed += 1
            print("    " + wrong.replace("\n", "\n    "))
        print(f"{'not ok' if wrong is not None else 'ok'} comments: {name}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
