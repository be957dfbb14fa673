#!/usr/bin/env python3
"""Makes the table of expected answers from the documentation: gen_calls.py docs/syscalls.md > calls_table.h"""

import re
import sys

# Younger than the headers a build may have; these numbers are the same on all architectures.
YOUNG = {"cachestat": 451, "fchmodat2": 452, "map_shadow_stack": 453, "futex_wake": 454, "futex_wait": 455,
         "futex_requeue": 456, "mseal": 462, "setxattrat": 463, "getxattrat": 464, "listxattrat": 465,
         "removexattrat": 466}
SECTIONS = {"Allowed": "CALL_ALLOWED", "Allowed with some arguments": "CALL_JUDGED", "Refused": "CALL_REFUSED"}


def lists(page):
    """{verdict: names} of a page."""
    found = {}
    for part in re.split(r"^## ", page, flags=re.MULTILINE)[1:]:
        title, _, text = part.partition("\n")
        if title not in SECTIONS:
            continue
        block = re.search(r"```text\n(.*?)```", text, re.DOTALL)
        names = block.group(1).split() if block else re.findall(r"^\| `(\w+)` \|", text, re.MULTILINE)
        assert names, f"no calls below '{title}'"
        found[SECTIONS[title]] = names
    assert set(found) == set(SECTIONS.values()), found.keys()
    return found


def main():
    with open(sys.argv[1], encoding="utf-8") as f:
        found = lists(f.read())
    print("/* Made from docs/syscalls.md. */")
    for name, number in sorted(YOUNG.items()):
        print(f"#ifndef __NR_{name}\n#define __NR_{name} {number}\n#endif")
    print("static const struct call_row calls_table[] = {")
    for verdict, names in found.items():
        for name in names:
            print(f'#ifdef __NR_{name}\n\t{{ __NR_{name}, "{name}", {verdict} }},\n#endif')
    print("};")


if __name__ == "__main__":
    main()
