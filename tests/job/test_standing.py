"""Tests of samples of a rank, a second apart: how long it is unchanged or asleep, and what shows that it works."""

from dataclasses import asdict

import msgspec
import pytest

from zmon.job.standing import CODE_SECONDS, RECENT_SECONDS, extended_history, work_sample
from zmon.schema.api import RankEvidence
from zmon.schema.standing import ProcessWork, Standing

MAIN = 'Thread 7 (idle): "MainThread"\n    save (/home/ann/train.py:{})\n    main (/home/ann/train.py:9)\n'
BUSY = MAIN.replace("idle", "active+gil")
OTHER = 'Thread 7 (idle): "MainThread"\n    encode (/home/ann/tokens.py:3)\n    main (/home/ann/train.py:9)\n'
THREAD = '{}Thread 8 (idle): "feed"\n    feed (/home/ann/feed.py:{})\n'
PROCESS = ProcessWork(
    cpu_seconds=100.0, read_bytes=1 << 30, written_bytes=1 << 30, network_bytes=1 << 30, processes=(7, 8),
    switches=500, waits=("futex_wait_queue",), file="/ckpt/a.pt",
)  # fmt: skip
MIB = 1 << 20


def evidence(stack, wchan="futex_wait_queue", **work):
    """Return what an agent gathered about the rank: its stack, its wait channel and PROCESS with other counters."""
    return RankEvidence("job", 2, stack=stack, wchan=wchan, work=msgspec.structs.replace(PROCESS, **work))


def standing_after(*answers, every=1.0):
    """Return the standing of a rank after samples with these answers, `every` seconds apart."""
    history = None
    for number, answer in enumerate(answers):
        history = extended_history(history, work_sample(answer, 50.0 + number * every))
    return history.standing


AT_FIRST = evidence(MAIN.format(8))
CHANGES = {  # the second sample; True if the rank is unchanged, and if it is asleep
    "nothing": (AT_FIRST, True, True),
    "py-spy guesses another state": (evidence(BUSY.format(8)), True, True),
    "another line": (evidence(MAIN.format(12)), False, True),
    "another function": (evidence(OTHER), False, True),
    "another thread": (evidence(THREAD.format(MAIN.format(8), 1)), False, True),
    "no stack": (evidence(None), False, True),
    "a heartbeat": (evidence(MAIN.format(8), cpu_seconds=100.04, network_bytes=(1 << 30) + 900), True, True),
    "processor time": (evidence(MAIN.format(8), cpu_seconds=100.2), False, True),
    "reads": (evidence(MAIN.format(8), read_bytes=2 << 30), False, True),
    "writes": (evidence(MAIN.format(8), written_bytes=2 << 30), False, True),
    "sends": (evidence(MAIN.format(8), network_bytes=2 << 30), False, True),
    "reads that may not be seen": (evidence(MAIN.format(8), read_bytes=None), False, True),
    "connections that are in another namespace": (evidence(MAIN.format(8), network_bytes=None), False, True),
    "a child ended": (evidence(MAIN.format(8), processes=(7,)), False, True),
    "it woke and sleeps again": (evidence(MAIN.format(8), switches=501), True, False),
    "it waits elsewhere": (evidence(MAIN.format(8), wchan="pipe_read"), True, False),
    "it runs": (evidence(MAIN.format(8), wchan=None), True, False),
    "switches are unknown": (evidence(MAIN.format(8), switches=None), True, False),
}


@pytest.mark.parametrize(("second", "unchanged", "asleep"), CHANGES.values(), ids=CHANGES)
def test_times_go_on_while_nothing_changes(second, unchanged, asleep):
    standing = standing_after(AT_FIRST, second)
    assert standing.unchanged_seconds == (1.0 if unchanged else 0.0)
    assert standing.asleep_seconds == (1.0 if asleep else 0.0)


WORK = {  # the counters that differ after two seconds; the rates that show that the rank works
    "it waits": ({}, {}),
    "it writes": ({"written_bytes": (1 << 30) + 600 * MIB}, {"written_bytes_per_second": 300.0 * MIB}),
    "it reads": ({"read_bytes": (1 << 30) + 4 * MIB}, {"read_bytes_per_second": 2.0 * MIB}),
    "it uploads": ({"network_bytes": (1 << 30) + MIB}, {"network_bytes_per_second": MIB / 2}),
    "a monitor reads /proc": ({"read_bytes": (1 << 30) + MIB}, {}),
    "a log grows": ({"written_bytes": (1 << 30) + 9000}, {}),
    "heartbeats": ({"network_bytes": (1 << 30) + 9000}, {}),
    "it spins": ({"cpu_seconds": 102.0}, {}),
    "a child that had read ended": ({"read_bytes": 5}, {}),
}


@pytest.mark.parametrize(("changes", "shown"), WORK.values(), ids=WORK)
def test_only_bytes_show_work(changes, shown):
    work = standing_after(AT_FIRST, evidence(MAIN.format(8), **changes), every=2.0).work
    if not shown:
        assert work is None
    else:
        assert {name: value for name, value in asdict(work).items() if value} == {**shown, "file": "/ckpt/a.pt"}


def test_other_lines_of_the_same_functions_show_no_work():
    """An endless loop is in the same functions in each sample."""
    assert standing_after(AT_FIRST, evidence(MAIN.format(9))).work is None


def test_other_functions_show_work_for_a_while():
    later = [evidence(OTHER)] * int(CODE_SECONDS + 1)
    assert standing_after(AT_FIRST, *later).work.in_other_code
    assert standing_after(AT_FIRST, *later, evidence(OTHER)).work is None


def test_work_of_a_while_ago_shows_nothing_about_now():
    answers = [AT_FIRST, *[evidence(MAIN.format(8), written_bytes=9 << 30)] * int(RECENT_SECONDS + 2)]
    assert standing_after(*answers).work is None
    assert standing_after(*answers).unchanged_seconds == RECENT_SECONDS + 1


PDB = """Thread 7 (idle): "MainThread"
    cmdloop (cmd.py:126)
    _cmdloop (pdb.py:360)
    interaction (pdb.py:435)
    user_line (/usr/lib/python3.11/pdb.py:309)
    trace_dispatch (bdb.py:90)
    <module> (/home/ann/train.py:9)
"""
STEPPED = """Thread 7 (idle): "MainThread"
    train (/home/ann/train.py:9)
    run (/usr/lib/python3.11/bdb.py:600)
    main (/usr/lib/python3.11/pdb.py:1700)
"""


@pytest.mark.parametrize(
    ("stack", "shown"),
    [
        pytest.param(PDB, True, id="at a breakpoint"),
        pytest.param(PDB.replace("(pdb", "(/usr/lib/python3.11/pdb"), True, id="at a breakpoint, with full paths"),
        pytest.param(STEPPED, False, id="the debugger runs the script"),
        pytest.param(MAIN.format(8), False, id="no debugger"),
    ],
)
def test_prompt_of_the_debugger_is_in_the_stack(stack, shown):
    assert standing_after(evidence(stack), evidence(stack)).in_debugger is shown


def test_agent_of_an_older_version_shows_nothing():
    assert work_sample(RankEvidence("job", 2, stack=MAIN.format(8)), 50.0) is None


WAITS = {  # functions of the kernel in which threads wait; True if nothing outside the host can end the waits
    "a lock": (("futex_do_wait",), True),
    "locks of two kernels": (("futex_wait_queue_me", "futex_wait_queue"), True),
    "a lock of a file, by flock": (("locks_lock_inode_wait",), False),
    "a lock of a file, by lockf": (("fcntl_setlk",), False),
    "a pipe without a writer": (("wait_for_partner",), True),
    "a pipe": (("pipe_read", "anon_pipe_read"), True),
    "a child": (("do_wait",), True),
    "a clock": (("futex_do_wait", "hrtimer_nanosleep"), False),
    "a packet": (("wait_woken",), False),
    "several files": (("poll_schedule_timeout.constprop.0",), False),
    "a thread that runs": (("futex_do_wait", ""), False),
    "unknown": ((), False),
}


@pytest.mark.parametrize(("waits", "local"), WAITS.values(), ids=WAITS)
def test_waits_that_no_clock_and_no_packet_ends(waits, local):
    assert Standing(waits=waits).waits_for_its_host is local
