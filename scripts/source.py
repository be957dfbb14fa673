"""What the checks share: which files are ours, and C without its comments and strings."""

import os
import re
import sys

SKIPPED_DIRS = re.compile(r"^(\.(?!ci$).*|build.*|node_modules|__pycache__)$")

_C_TOKEN = re.compile(
    r"""(?P<comment>/\*.*?\*/|//[^\n]*)|(?P<string>"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*')""",
    re.DOTALL | re.VERBOSE)


def files(root, *suffixes, under=""):
    """Paths relative to root, sorted; hidden, built and installed directories left out."""
    found = []
    for place, dirs, names in os.walk(os.path.join(root, under)):
        dirs[:] = [d for d in dirs if not SKIPPED_DIRS.match(d)]
        for name in names:
            if name != ".git" and (not suffixes or name.endswith(suffixes)):  # a file, in a worktree
                found.append(os.path.relpath(os.path.join(place, name), root))
    return sorted(found)


def c_files(root, under=""):
    return files(root, ".c", ".h", under=under)


def read(root, path):
    with open(os.path.join(root, path), encoding="utf-8", errors="surrogateescape",
              newline="") as f:
        return f.read()


def strip_c(text, keep_strings=False):
    """Blank out comments (and strings), keeping every line where it was."""
    def blank(match):
        if match.lastgroup == "string" and keep_strings:
            return match.group()
        edge = '""' if match.lastgroup == "string" else " "
        return edge + "\n" * match.group().count("\n")
    return _C_TOKEN.sub(blank, text)


def root_argument(argv, usage):
    """The tree to look at: this one, or the one given by --root DIR; and the other arguments."""
    root = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    rest = argv[1:]
    if rest[:1] == ["--root"] and len(rest) > 1:
        root, rest = rest[1], rest[2:]
    if any(arg.startswith("-h") or arg == "--help" for arg in rest):
        sys.exit(usage.strip())
    return root, rest


def finish(name, problems, looked_at):
    """Print the findings as FILE:LINE: WHAT and turn them into an exit code."""
    for problem in problems:
        print(problem)
    if problems:
        print(f"{name}: {len(problems)} found")
        return 1
    if looked_at == 0:
        print(f"{name}: nothing to look at; is this the right tree?")
        return 1
    print(f"{name}: {looked_at} files are fine")
    return 0
