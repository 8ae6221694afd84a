"""Tests of faults that overlap: the second one joins the finding of the first; what follows from a fault does not."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.build import NOW, dead, finding, killed, rank_state, snapshot, waiting, words
from tests.detectors.stalls import STALL, detect, stopped
from zmon.job.merging import follows, joined
from zmon.schema.names import severity_order


def both(first, second, **changes):
    """Return what is reported about a job in which two ranks have these states and the others wait."""
    culprits = {first.rank, second.rank}
    return detect(first, second, *(waiting(rank, 5.0) for rank in range(4) if rank not in culprits), **changes)


def test_rank_that_fails_while_another_has_failed_joins_its_finding():
    after = both(killed(0, 8.0), stopped(3, 2.0))
    assert (after.cause, after.ranks) == ("rank_exited", (0, 3))
    finding_ = both(stopped(3, 8.0), killed(0, 2.0, host="node-b"))
    assert (finding_.cause, finding_.ranks, finding_.hosts) == ("rank_frozen", (3, 0), ("node-a", "node-b"))
    assert "; also: rank 0 on node-b exited" in finding_.summary
    assert "kill -CONT" in finding_.detail
    assert "dmesg" in finding_.detail
    (fault,) = finding_.evidence.joined
    assert (fault.cause, fault.ranks) == ("rank_exited", (0,))


def test_joined_finding_has_the_higher_severity():
    restarting = {"restart_count": 0, "max_restarts": 3}
    ranks = [killed(0, 8.0, **restarting), stopped(3, 2.0, **restarting)]
    finding_ = detect(*ranks, *(waiting(rank, 5.0, **restarting) for rank in (1, 2)))
    assert (finding_.cause, finding_.severity) == ("rank_exited", "critical")


def test_summary_that_a_second_fault_made_critical_does_not_promise_that_it_will_be():
    blocked = rank_state(3, process_state="D", blocked_seconds=8.0, overdue_seconds=6.0, step_seconds=8.0)
    finding_ = both(blocked, killed(0, 2.0))
    assert (finding_.cause, finding_.severity, finding_.ranks) == ("rank_frozen", "critical", (3, 0))
    assert "critical" not in finding_.summary
    assert finding_.summary.count("; also: rank 0 on node-a exited") == 1
    assert finding_.evidence.silence.critical_seconds == 20.0


def test_second_fault_that_is_not_critical_alone_does_not_promise_a_later_page():
    """A launch after failed ones hangs: the finding of the crash loop is critical already."""
    late = detect(*(waiting(rank, 5.0) for rank in range(3)), waiting(3, 5.0, in_flight=None, phase="forward"))
    both_ = joined(finding(severity="critical", summary="3 starts failed"), late)
    assert "it becomes critical" in late.summary
    assert both_.summary.startswith("3 starts failed; also: ")
    assert "critical" not in both_.summary
    assert both_.evidence.joined[-1].severity == "warning"


FROZEN = stopped(3, 700.0)
OTHERS = [waiting(1), waiting(2)]
WRITING = rank_state(3, process_state="D", blocked_seconds=2.0, overdue_seconds=3.0, step_seconds=5.0)
TIMED_OUT = words("exception", "builtins.ValueError", "watchdog caught a timeout", NOW - 2)
INSIDE = waiting(0).in_flight
ONE_FAULT = {  # the ranks at fault, and all ranks
    "the watchdog aborted a rank that waited for the frozen one": (
        (3,), [FROZEN, dead(0, 2.0, exit_status="signal SIGABRT", in_flight=INSIDE, device="GPU-0"), *OTHERS]),
    "the collective raised in a rank that waited for the frozen one": (
        (0,), [FROZEN, dead(0, 2.0, exit_status="exit code 1", in_flight=INSIDE, last_words=TIMED_OUT), *OTHERS]),
    "somebody killed all ranks but the frozen one, which does not react": (
        (0, 1, 2), [stopped(3, 60.0), *(killed(rank, 2.0) for rank in range(3))]),
    # It is in uninterruptible sleep, and past its lease because another rank was killed.
    "a rank writes a core file": ((0,), [killed(0, 8.0), WRITING, *OTHERS]),
    "a frozen rank is killed": ((3,), [killed(3), *map(waiting, range(3))]),
}  # fmt: skip


@pytest.mark.parametrize("what", ONE_FAULT)
def test_consequence_of_a_fault_does_not_join(what):
    culprits, ranks = ONE_FAULT[what]
    finding_ = detect(*ranks)
    assert finding_.ranks == culprits
    assert not finding_.evidence.joined


# -- a fault after a finding that only silence shows ---------------------------------------------------------

HUNG = waiting(2, 40.0, in_flight=None, phase="forward", sequences={"0": 300})  # it computes while the others wait
KILLED = {"exit_status": "signal SIGKILL", "in_flight": INSIDE}


def hang(first, seconds=30.0, hung=HUNG, time=NOW):
    """Return the finding about a job whose rank 2 hangs, given the state of rank 0."""
    return next(iter(STALL.detect(snapshot(first, waiting(1, seconds), hung, waiting(3, seconds), time=time))))


@pytest.mark.parametrize(
    ("first", "hung", "is_second"),
    [
        (dead(0, 2.0, **KILLED), HUNG, True),
        (stopped(0, 2.0), HUNG, True),  # a rank that waits is stopped by somebody, never by the wait
        (dead(0, 20.0, **KILLED), HUNG, False),
        (dead(0, 2.0, **KILLED), waiting(2, 3.0, step=101), False),
    ],
    ids=["killed", "stopped", "died before the first finding, and corrects it", "the culprit has gone on"],
)
def test_fault_while_another_rank_hangs_is_a_second_one(first, hung, is_second):
    before, later = hang(waiting(0, 30.0)), hang(first, 40.0, hung, NOW + 10)
    assert (before.ranks, later.ranks) == ((2,), (0,))
    assert follows(before, later) is is_second


# -- properties --------------------------------------------------------------------------------------------

RANKS = st.lists(st.integers(0, 7), min_size=1, max_size=4, unique=True).map(tuple)
FAULTS = st.builds(
    lambda ranks, severity, onset: finding(
        ranks=ranks, hosts=tuple(f"node-{rank // 2}" for rank in ranks), severity=severity, onset=onset
    ),
    RANKS,
    st.sampled_from(["info", "warning", "critical"]),
    st.floats(NOW - 100, NOW),
)


@given(FAULTS, FAULTS)
def test_joined_finding_loses_no_culprit_and_its_severity_never_falls(first, second):
    both_ = joined(first, second)
    assert set(both_.ranks) == set(first.ranks) | set(second.ranks)
    assert len(both_.ranks) == len(set(both_.ranks))
    assert dict(zip(both_.ranks, both_.hosts, strict=False)) == {rank: f"node-{rank // 2}" for rank in both_.ranks}
    assert severity_order(both_.severity) == max(severity_order(first.severity), severity_order(second.severity))
    assert (both_.id, both_.cause, both_.onset) == (first.id, first.cause, first.onset)
