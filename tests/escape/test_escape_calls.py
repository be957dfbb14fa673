#!/usr/bin/env python3
"""The system call filter, call by call: docs/syscalls.md says what each answers, and a program made of that page asks
for every number there is, in a sandbox made through the API and in one of the runner alone.
timeout: 300"""

from escapelib import *  # noqa: F401,F403  pylint: disable=wildcard-import,unused-wildcard-import

setup()


@case
def E33_foreign_tables_and_personalities():
    """Numbers of i386 and x32, and execution domains, do not get past the filter."""
    box = product().box()
    for out in product().tries("calls-foreign", box=box):
        print("#", out.replace("\n", "; "))
    product().tries("E33", box=box)
    product().server.delete(box)


@case
def X01_every_system_call_answers_as_documented():
    for out in product().tries("calls-own"):
        assert "as documented" in out, out
        print("#", out)
    with boxes.Runner() as r:
        r.create("box")
        tries_in(r, "box", "calls-own")


@case
def E34_clone3_and_flags_that_change():
    product().tries("E34")


main()
