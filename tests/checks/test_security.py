#!/usr/bin/env python3
"""What SECURITY.md promises is tested where it says, the system calls in the documentation are those of the code, and
every named attempt to get out is accounted for."""

import os
import re
import sys
import tempfile

sys.dont_write_bytecode = True
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "tests", "escape"))

import attempts  # noqa: E402  pylint: disable=wrong-import-position
import catalog  # noqa: E402  pylint: disable=wrong-import-position
import gen_calls  # noqa: E402  pylint: disable=wrong-import-position

LINK = re.compile(r"\[`?([^]`]+)`?\]\((tests/[^)#]+)\)")
LISTS = {"CALL_ALLOWED": "syscalls_allowed", "CALL_REFUSED": "syscalls_refused"}


def read(path):
    with open(os.path.join(ROOT, path), encoding="utf-8") as f:
        return f.read()


def has_case(path, name):
    """Is there such a case in a test: by id, by the name of its function, or by its name in a table?"""
    if not os.path.isfile(os.path.join(ROOT, path)):
        return False
    text = read(path)
    if re.fullmatch(r"[ERX]\d\d", name):
        return re.search(rf"^def {name}_\w+\(", text, re.MULTILINE) is not None
    patterns = (rf"^def {re.escape(name)}\(", rf"^static void {re.escape(name)}\(", rf"\"{re.escape(name)}\"")
    return any(re.search(p, text, re.MULTILINE) for p in patterns)


def broken_links(text):
    return [f"{name} in {path}" for name, path in LINK.findall(text) if not has_case(path, name)]


def unproven(text):
    """Rows of the promises' table that no test stands for."""
    lines = [line for line in text.splitlines() if re.match(r"\| \d+\b", line)]
    return [line[:60] for line in lines if not LINK.search(line)] if lines else ["there are no promises"]


def code_list(name):
    body = re.search(rf"{name}\[\] = \{{(.*?)\n\}};", read("src/sandbox/syscalls.h"), re.DOTALL).group(1)
    return re.findall(r"__NR_(\w+),", body)


def judged():
    body = re.search(r"\} judged\[\] = \{(.*?)\n\};", read("src/sandbox/seccomp.c"), re.DOTALL).group(1)
    return re.findall(r"__NR_(\w+),", body)


def promises_link_to_tests():
    text = read("SECURITY.md")
    assert len(LINK.findall(text)) > 40, "hardly any links"
    assert broken_links(text) == [], broken_links(text)
    assert unproven(text) == [], unproven(text)


def broken_links_are_found():
    good = "| 1 | x | [E01](tests/escape/test_escape_files.py) |"
    assert broken_links(good) == [] and unproven(good) == []
    assert broken_links("[E01](tests/escape/test_escape_peers.py)") == ["E01 in tests/escape/test_escape_peers.py"]
    assert broken_links("[`no_such_case`](tests/api/test_hostile.py)")
    assert broken_links("[E01](tests/escape/test_no_such_file.py)")
    assert unproven("| 1 | a promise | nothing |") == ["| 1 | a promise | nothing |"]
    assert unproven("no table") == ["there are no promises"]


def system_calls_are_documented():
    found = gen_calls.lists(read("docs/syscalls.md"))
    for verdict, name in LISTS.items():
        documented, coded = found[verdict], code_list(name)
        assert len(documented) == len(set(documented)) and len(coded) == len(set(coded)), name
        assert set(documented) == set(coded), (name, set(documented) ^ set(coded))
    assert set(found["CALL_JUDGED"]) == set(judged()), set(found["CALL_JUDGED"]) ^ set(judged())


def named_cases_are_accounted_for():
    assert catalog.problems() == [], "\n".join(catalog.problems())


def attempts_by_halves_are_found():
    """In the source, and when they run."""
    source = ("@case\ndef E01_a():\n    product().tries('x')\n@case\ndef E02_b():\n    helper()\n"
              "@case\ndef E03_c():\n    product().probe('x', uid=1000)\ndef helper():\n    for u in users(): pass\n")
    with tempfile.NamedTemporaryFile("w", suffix=".py") as f:
        f.write(source)
        f.flush()
        found = catalog.from_inside(f.name)
        assert {"E01_a", "E02_b"} <= found and "E03_c" not in found, found

    def verdict(name, rounds):
        attempts.begin()
        for n in rounds:
            for uid in attempts.users():
                if uid == n:
                    break
        try:
            return attempts.who_tried(name)
        except AssertionError:
            return None

    whole, half = -1, 1000
    assert verdict("E01_x", [whole, whole]) == "as root and as 1000"
    assert verdict("E01_x", []) is None and verdict("E01_x", [whole, half]) is None
    outside = next(iter(catalog.OUTSIDE))
    assert verdict(f"{outside}_x", []).startswith("from outside") and verdict(f"{outside}_x", [whole]) is None
    assert verdict("R01_x", []) == "from outside"


def main():
    failed = 0
    for check in (promises_link_to_tests, broken_links_are_found, system_calls_are_documented,
                  named_cases_are_accounted_for, attempts_by_halves_are_found):
        try:
            check()
            print(f"ok {check.__name__}")
        except AssertionError as e:
            print(f"not ok {check.__name__}\n  {e}")
            failed = 1
    return failed


if __name__ == "__main__":
    sys.exit(main())
