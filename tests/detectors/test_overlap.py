"""Tests of faults that overlap: the second one joins the finding of the first; what follows from a fault does not."""

from dataclasses import replace

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


def test_rank_that_is_killed_while_another_is_frozen_joins_its_finding():
    finding_ = both(stopped(3, 8.0), killed(0, 2.0, host="node-b"))
    assert (finding_.cause, finding_.ranks, finding_.hosts) == ("rank_frozen", (3, 0), ("node-a", "node-b"))
    assert "; also: rank 0 on node-b exited" in finding_.summary
    assert "kill -CONT" in finding_.detail
    assert "dmesg" in finding_.detail
    (fault,) = finding_.evidence.joined
    assert (fault.cause, fault.ranks) == ("rank_exited", (0,))


def test_rank_that_is_frozen_after_another_was_killed_joins_its_finding():
    finding_ = both(killed(0, 8.0), stopped(3, 2.0))
    assert (finding_.cause, finding_.ranks) == ("rank_exited", (0, 3))


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


@pytest.mark.parametrize(
    "victim",
    [
        dead(0, 2.0, exit_status="signal SIGABRT", in_flight=waiting(0).in_flight, device="GPU-0"),
        dead(0, 2.0, exit_status="exit code 1", in_flight=waiting(0).in_flight,
             last_words=words("exception", "builtins.ValueError", "watchdog caught a timeout", NOW - 2)),
    ],
    ids=["aborted by the watchdog", "raised by the collective"],
)  # fmt: skip
def test_rank_that_dies_of_waiting_for_a_frozen_rank_does_not_join(victim):
    finding_ = both(stopped(3, 700.0), victim)
    assert not finding_.evidence.joined


def test_end_of_the_whole_job_does_not_join():
    """Somebody killed all ranks but the frozen one, which does not react."""
    finding_ = detect(stopped(3, 60.0), *(killed(rank, 2.0) for rank in range(3)))
    assert not finding_.evidence.joined


def test_rank_that_writes_a_core_file_is_not_frozen():
    """It is in uninterruptible sleep, and past its lease because another rank was killed."""
    writing = rank_state(3, process_state="D", blocked_seconds=2.0, overdue_seconds=3.0, step_seconds=5.0)
    assert both(killed(0, 8.0), writing).ranks == (0,)


def test_frozen_rank_that_is_killed_is_one_fault():
    assert not detect(killed(3), *map(waiting, range(3))).evidence.joined


# -- a death after a finding that only silence shows ---------------------------------------------------------


def hang(**changes):
    """Return the finding about rank 2, which computes while the others wait for it."""
    ranks = [waiting(rank, 30.0) for rank in (0, 1, 3)]
    ranks.append(waiting(2, 30.0, in_flight=None, phase="forward", sequences={"0": 300}, **changes))
    return replace(next(iter(STALL.detect(snapshot(*ranks)))), detected=NOW)


def death(rank=0, culprit=None, gone=2.0, **changes):
    """Return the finding about a rank that died ten seconds later."""
    ended = dead(rank, gone, **{"exit_status": "signal SIGKILL", "in_flight": waiting(rank).in_flight, **changes})
    hung = culprit or waiting(2, 40.0, in_flight=None, phase="forward", sequences={"0": 300})
    ranks = [ended, hung, *(waiting(other, 40.0) for other in range(4) if other not in (rank, 2))]
    return next(iter(STALL.detect(snapshot(*ranks, time=NOW + 10))))


def test_rank_that_is_killed_while_another_hangs_is_a_second_fault():
    assert hang().ranks == (2,)
    assert follows(hang(), death())


def test_rank_that_is_stopped_while_another_hangs_is_a_second_fault():
    """A rank that waits in a collective is stopped by somebody, never by the wait."""
    ranks = [waiting(rank, 40.0) for rank in (1, 3)]
    ranks += [stopped(0, 2.0), waiting(2, 40.0, in_flight=None, phase="forward", sequences={"0": 300})]
    later = next(iter(STALL.detect(snapshot(*ranks, time=NOW + 10))))
    assert (later.cause, later.ranks) == ("rank_frozen", (0,))
    assert follows(hang(), later)


def test_rank_that_died_before_the_first_finding_corrects_it():
    assert not follows(hang(), death(gone=20.0))


def test_culprit_that_has_gone_on_is_not_at_fault_any_more():
    assert not follows(hang(), death(culprit=waiting(2, 3.0, step=101)))


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
