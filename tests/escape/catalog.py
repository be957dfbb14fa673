"""The named cases: attempts to get out (E), failures that others had (R), attempts of our own (X).

Every name is accounted for. A case is a function `E01_...` in a test_*.py beside this file, or one of the tests that
ELSEWHERE names, or it waits for a feature that the product does not have yet. tests/checks/test_security.py sees to it
that this is so, and `make test-escape` prints the table."""

import ast
import glob
import os
import re

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))

NAMES = {
    "E01": "proc-self-exe-overwrite", "E02": "cwd-fd-leak", "E03": "inherited-fd-census",
    "E04": "masked-path-devnull-symlink", "E05": "console-pts-symlink", "E06": "procfs-write-redirect",
    "E07": "dev-symlink-image", "E08": "proc-sys-symlink-image", "E09": "volume-target-symlink-race",
    "E10": "shared-volume-create-race", "E11": "host-path-not-allowlisted", "E12": "open-by-handle-at",
    "E13": "mknod-and-raw-disk", "E14": "remount-read-write", "E15": "double-chroot", "E16": "proc-root-of-others",
    "E17": "overlay-marks", "E18": "archive-traversal", "E19": "file-api-traversal", "E20": "setuid-programs",
    "E21": "kernel-helpers", "E22": "cgroup-release-agent", "E23": "cgroup-climb", "E24": "unshare-newuser",
    "E25": "bpf-and-perf", "E26": "io-uring", "E27": "userfaultfd", "E28": "keys-across-sandboxes",
    "E29": "ptrace-of-execd-and-siblings", "E30": "modules-kexec-reboot-ports", "E31": "socket-families",
    "E32": "typing-into-terminals", "E33": "foreign-system-call-tables", "E34": "clone3-and-changing-flags",
    "E35": "reading-the-kernel", "E36": "new-mount-api", "E37": "restrictions-outlive-exec",
    "E38": "capabilities-as-promised", "E39": "setns", "E40": "abstract-sockets", "E41": "sockets-of-the-host",
    "E42": "metadata-services", "E43": "host-and-neighbours", "E44": "route-localnet", "E45": "forged-addresses",
    "E46": "egress-policy-bypass", "E47": "egress-enforcer-attacked", "E48": "policy-of-a-fork",
    "E49": "gateway-to-elsewhere", "E50": "api-without-the-key", "E51": "servers-key-inside",
    "E52": "vault-plaintext", "E53": "tokens-of-the-dead", "E54": "reserved-metadata", "E55": "signed-url-tampering",
    "E56": "hostile-requests", "E57": "fork-and-thread-bombs", "E58": "memory-of-all-kinds",
    "E59": "disk-inodes-depth", "E60": "counted-things", "E61": "floods-of-output",
    "E62": "processor-time-and-priorities", "E63": "survivor-after-delete", "E64": "clock-and-names",
    "E65": "nothing-of-the-last-tenant", "E66": "entropy-of-forks", "E67": "identity-of-forks",
    "E68": "sockets-of-forks", "E69": "snapshot-of-others", "E70": "restore-epoch-collision",
    "R01": "pause-and-resume-keep-every-byte", "R02": "uploads-read-back-by-hash", "R03": "exit-status-never-invented",
    "R04": "timeout-with-a-background-child", "R05": "stream-ends-with-the-process", "R06": "delete-from-every-state",
    "R07": "killed-in-the-middle", "R08": "burst-of-creates", "R09": "pool-empty", "R10": "pool-member-dead",
    "R11": "time-to-live-over-restarts", "R12": "out-of-memory-told", "R13": "unknown-limit-refused",
    "R14": "flat-over-many-rounds", "R15": "disk-full-at-each-step", "R16": "host-that-lacks-something",
    "R17": "client-gone-mid-stream", "R18": "fork-with-a-failing-child",
    "X01": "every-system-call-as-documented", "X02": "files-that-execd-trusts", "X03": "isolated-sessions-no-way-out",
    "X04": "what-others-run-is-not-seen", "X05": "descriptors-shared-by-volume", "X06": "connections-of-all-taken",
    "X07": "crash-starts-nothing-outside", "X08": "neighbours-of-all-taken",
    "X09": "memory-in-sockets", "X10": "room-for-compiled-filters", "X11": "huge-pages-of-the-host",
    "X12": "modules-nobody-asked-for", "X13": "kernels-map-stays-whole",
    "X14": "files-others-wait-for", "X15": "locks-in-the-way-of-the-host", "X16": "host-files-for-root-alone",
    "X17": "secrets-in-the-log",
}

WAITS = {
    "E46": "egress policy", "E47": "egress policy", "E48": "snapshots and forks", "E52": "credential vault",
    "E55": "signed URLs", "E66": "snapshots and forks", "E67": "snapshots and forks", "E68": "snapshots and forks",
    "E69": "snapshots and forks", "E70": "snapshots and forks", "R09": "pools", "R10": "pools",
    "R18": "snapshots and forks",
}

# Attacks that have no inside, and who makes them. All others are made as a sandbox's root and as an ordinary user.
OUTSIDE = {"E54": "a client with the key", "X17": "a reader of the log"}

# What of a case waits while the rest is tried.
IN_PART = {
    "E18": "diff and commit wait for snapshots", "E49": "other tenants wait for tenants",
    "E50": "other tenants wait for tenants", "E53": "forks and restores wait for snapshots and forks",
    "E65": "slots of a pool wait for pools; network namespaces are pooled and tried",
    "R07": "forks and snapshots wait for snapshots and forks",
    "R14": "hundreds of sandboxes, thousands of commands; 10^5 by OSB_FLAT_ROUNDS, 10^6 by OSB_FLAT_EXECS",
}

WHOLE = "as a whole"  # a program whose results are one
_CLOCK = "tests/runtime/test_clock.py"
_RELIABILITY = "tests/runtime/test_reliability.py"
ELSEWHERE = {
    "R01": [(_RELIABILITY, "R01_ten_rounds_of_pause_and_resume_keep_every_byte"),
            (_RELIABILITY, "R01_a_pause_that_nobody_lived_to_complete_is_taken_back")],
    "R03": [(_RELIABILITY, "R03_an_exit_status_is_never_invented")],
    "R05": [("tests/api/test_execd_commands.py", "the_stream_ends_with_the_leader_and_survivors_live"),
            ("tests/api/test_execd_commands.py", "output_of_the_last_moment_is_not_lost")],
    "R06": [(_RELIABILITY, "R06_delete_works_from_every_state"),
            (_RELIABILITY, "R06_what_is_deleted_while_it_expires_is_gone")],
    "R07": [(_RELIABILITY, "R07_killed_in_the_middle_of_a_create"),
            (_RELIABILITY, "R07_a_volume_goes_with_the_create_that_nobody_lived_to_complete"),
            (_RELIABILITY, "R07_killed_in_the_middle_of_a_delete"),
            ("tests/api/test_server_restart.py", "killed_at_random_instants_nothing_is_left_and_nothing_is_lost")],
    "R11": [(_RELIABILITY, "R11_a_restart_does_not_reset_the_time_to_live"),
            (_RELIABILITY, "R11_a_renewal_wins_or_loses_against_the_expiry_but_never_both")],
    "R12": [(_RELIABILITY, "R12_running_out_of_memory_is_told_as_that"),
            ("tests/runtime/test_execd_oom.py", "the_leader_killed_for_memory")],
    "R13": [(_RELIABILITY, "R13_an_unknown_limit_is_refused")],
    "R14": [("tests/runtime/test_boxes.py", "many_rounds_leave_the_runner_as_it_was"),
            ("tests/api/test_execd_stress.py", "a_thousand_commands_leave_nothing"),
            ("tests/runtime/test_flat_execs.py", WHOLE), ("tests/runtime/test_flat.py", WHOLE)],
    "R15": [(_RELIABILITY, "R15_a_full_disk_gives_clean_errors_at_every_step"),
            (_RELIABILITY, "R15_what_a_full_disk_refuses_has_not_happened"),
            (_RELIABILITY, "R15_a_server_killed_on_a_full_disk_comes_back"),
            (_RELIABILITY, "R15_a_delete_that_was_answered_on_a_full_disk_is_one_after_a_restart")],
    "R16": [(_CLOCK, "a_clock_set_forward_ends_what_has_expired_and_nothing_else"),
            (_CLOCK, "a_clock_set_back_lengthens_no_life"),
            (_CLOCK, "a_clock_set_back_while_nobody_looked_lengthens_no_life"),
            (_CLOCK, "what_was_due_while_the_machine_slept_ends_when_it_wakes"),
            (_CLOCK, "use_renews_whatever_the_clock_says"), (_CLOCK, "a_renewal_counts_from_when_it_is_made"),
            ("tests/runtime/test_cgroups.py", "v1_alone"), ("tests/runtime/test_cgroups.py", "v2_alone"),
            ("tests/runtime/test_cgroups.py", "none_at_all"),
            ("tests/runtime/test_net.py", "without_nft_there_is_no_network"),
            ("tests/runtime/test_boxes.py", "what_is_not_the_runners_own_is_refused"),
            ("tests/runtime/test_boxes.py", "a_state_directory_that_cannot_hold_sandboxes_is_refused"),
            ("tests/runtime/test_rootless.py", "without_user_namespaces_it_says_so_and_does_not_start")],
    "R17": [(_RELIABILITY, "R17_a_client_that_leaves_leaks_nothing")],
}


def functions(path):
    """Names of the test cases in a Python file: functions marked with @case."""
    with open(os.path.join(ROOT, path), encoding="utf-8") as f:
        tree = ast.parse(f.read())
    return [node.name for node in tree.body if isinstance(node, ast.FunctionDef) and
            any(isinstance(d, ast.Name) and d.id == "case" for d in node.decorator_list)]


def from_inside(path):
    """The functions of a file that try something as each user, by themselves or by way of another."""
    with open(os.path.join(ROOT, path), encoding="utf-8") as f:
        tree = ast.parse(f.read())
    calls = {node.name: {getattr(call.func, "id", getattr(call.func, "attr", None)) for call in ast.walk(node)
                         if isinstance(call, ast.Call)} for node in tree.body if isinstance(node, ast.FunctionDef)}
    trying = {"users", "tries", "tries_in"}
    while more := {name for name, called in calls.items() if called & trying} - trying:
        trying |= more
    return trying


def named(pattern):
    """{id: [(file, function)]} of the cases in these files."""
    found = {}
    for path in sorted(glob.glob(pattern)):
        for name in functions(path):
            if re.match(r"[ERX]\d\d_", name):
                found.setdefault(name[:3], []).append((os.path.relpath(path, ROOT), name))
    return found


def here():
    """Those beside this file."""
    return named(os.path.join(HERE, "test_*.py"))


def strays(everywhere, listed):
    """Cases by name that no row of the table runs."""
    return [f"{case}: {name} in {path} is not in the table" for case, tests in sorted(everywhere.items())
            for path, name in tests if (path, name) not in listed]


def problems():
    """What is wrong with the accounts, in words."""
    found, wrong = here(), []
    for case in NAMES:
        places = [case in found, case in ELSEWHERE, case in WAITS]
        if sum(places) != 1:
            wrong.append(f"{case} {NAMES[case]} must be tried here, be named elsewhere, or wait: it is {places}")
    wrong += [f"{case} has no name" for group in (found, ELSEWHERE, WAITS, IN_PART, OUTSIDE) for case in group
              if case not in NAMES]
    for case, tests in found.items():
        wrong += [f"{name} must be tried as each of users(), or be in OUTSIDE" for path, name in tests
                  if case[0] != "R" and (name in from_inside(path)) == (case in OUTSIDE)]
    wrong += [f"{case} is an attempt, and cannot be tried elsewhere" for case in ELSEWHERE if case[0] != "R"]
    for case, tests in ELSEWHERE.items():
        for path, name in tests:
            if not os.path.exists(os.path.join(ROOT, path)) or name not in [WHOLE, *functions(path)]:
                wrong.append(f"{case}: there is no case {name} in {path}")
    listed = {place for group in (found, ELSEWHERE) for tests in group.values() for place in tests}
    return wrong + strays(named(os.path.join(ROOT, "tests", "*", "test_*.py")), listed)
