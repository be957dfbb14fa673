"""Whether something has grown over many rounds: the later half of the samples beside the earlier one."""

import contextlib
import statistics
import threading

WARM_UP = 0.2


def warm(samples):
    """Those after the beginning, in which everything grows."""
    return samples[int(len(samples) * WARM_UP):]


def share(numbers, workers, act, opened=contextlib.nullcontext):
    """act(n, it) for each of the numbers, by so many at a time; `it` is what opened() gave that one."""
    numbers, errors, lock = iter(numbers), [], threading.Lock()

    def work():
        with opened() as it:
            while not errors:
                with lock:
                    n = next(numbers, None)
                if n is None:
                    return
                try:
                    act(n, it)
                except BaseException as e:  # pylint: disable=broad-except
                    errors.append(e)

    threads = [threading.Thread(target=work) for _ in range(workers)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    if errors:
        raise errors[0]


def note(path, done, sample):
    """A line of the curve after so many rounds, if there is a file for it (tab-separated)."""
    if path:
        with open(path, "a", encoding="ascii") as f:
            f.write("\t".join([str(done)] + [f"{name}={value}" for name, value in sample.items()]) + "\n")


def judge(samples, tolerance):
    """Names of what has grown, each told about. tolerance: {name: (share, at least this much)} that may be more."""
    kept = warm(samples)
    early, late = kept[:len(kept) // 2], kept[len(kept) // 2:]
    grown = []
    for name, (share, least) in tolerance.items():
        before = statistics.median(s[name] for s in early)
        after = statistics.median(s[name] for s in late)
        good = after <= before + max(before * share, least)
        print(f"{'ok' if good else 'not ok'} {name} {before:g} then {after:g}", flush=True)
        if not good:
            grown.append(name)
    return grown
