"""Who tries: every attempt from inside is made as the sandbox's root and as an ordinary user, and this keeps the books.

    for uid in users():
        ...                 # to its end, or it does not count

A case in which one of them is missing has failed, unless catalog.py says that the attacker is outside."""

import catalog

USERS = [0, 1000]
_attempts = []  # of the case that runs: the users each was made as


def begin():
    """Another case."""
    _attempts.clear()


def users():
    made_as = []
    _attempts.append(made_as)
    for uid in USERS:
        yield uid
        made_as.append(uid)


def who_tried(name):
    """In words, once the case of this name has run; raises if somebody is missing."""
    outside = catalog.OUTSIDE.get(name[:3])
    if name.startswith("R") or outside:
        assert not outside or not _attempts, f"{name} is tried from inside, too: it is not for catalog.OUTSIDE"
        return f"from outside by {outside}" if outside else "from outside"
    assert _attempts, f"{name} is tried as nobody, and not in catalog.OUTSIDE"
    assert all(made_as == USERS for made_as in _attempts), f"{name} is not always tried as {USERS}: {_attempts}"
    return "as root and as 1000"
