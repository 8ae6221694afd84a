"""Tests of faults that overlap: a second fault joins the finding of the first, a consequence of the first does not."""

from dataclasses import replace
from functools import partial

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import UNSET

from tests.build import NOW, dead, finding, killed, waiting, words
from tests.detectors.hangs.silence import sleeps
from tests.detectors.stalls import STALL, job, outside, stopped
from zmon.job.merging import follows, joined, updated
from zmon.schema.evidence import StallEvidence
from zmon.schema.names import severity_order


def finding_about(*faults, **changes):
    """Return the finding about a job of four ranks in which some have these states and the others wait."""
    return next(iter(STALL.detect(job(*faults, **changes))))


def test_rank_that_is_killed_while_another_is_frozen_joins_its_finding():
    merged = finding_about(stopped(3, 8.0), killed(0, 2.0, host="node-b"))
    assert (merged.cause, merged.ranks, merged.hosts) == ("rank_frozen", (3, 0), ("node-a", "node-b"))
    assert "; also: rank 0 on node-b exited" in merged.summary
    assert "kill -CONT" in merged.detail
    assert "dmesg" in merged.detail
    (fault,) = merged.evidence.joined
    assert (fault.cause, fault.ranks) == ("rank_exited", (0,))


def test_rank_that_is_frozen_after_another_was_killed_joins_its_finding_with_the_higher_severity():
    restarting = {"restart_count": 0, "max_restarts": 3}
    dead, frozen = killed(0, 8.0, **restarting), stopped(3, 2.0, **restarting)
    merged = finding_about(dead, frozen, rest=partial(waiting, **restarting))
    assert (merged.cause, merged.ranks, merged.severity) == ("rank_exited", (0, 3), "critical")


def test_summary_that_a_second_fault_made_critical_does_not_promise_that_it_will_be():
    merged = finding_about(sleeps(3, 8.0, 8.0, overdue_seconds=6.0), killed(0, 2.0))
    assert (merged.cause, merged.severity, merged.ranks) == ("rank_frozen", "critical", (3, 0))
    assert "critical" not in merged.summary
    assert merged.summary.count("; also: rank 0 on node-a exited") == 1
    assert merged.evidence.silence.critical_seconds == 20.0


def test_second_fault_that_is_not_critical_alone_does_not_promise_a_later_page():
    """A launch after failed ones hangs: the finding of the crash loop is critical already."""
    late = finding_about(outside(3))
    merged = joined(finding(severity="critical", summary="3 starts failed"), late)
    assert "it becomes critical" in late.summary
    assert merged.summary.startswith("3 starts failed; also: ")
    assert "critical" not in merged.summary
    assert merged.evidence.joined[-1].severity == "warning"


IN_COLLECTIVE = {"in_flight": waiting(0).in_flight}
TIMEOUT = words("exception", "builtins.ValueError", "watchdog caught a timeout", NOW - 2)
ABORTED = dead(0, 2.0, exit_status="signal SIGABRT", device="GPU-0", **IN_COLLECTIVE)
RAISED = dead(0, 2.0, exit_status="exit code 1", last_words=TIMEOUT, **IN_COLLECTIVE)

ONE_FAULT = {  # ranks of a job, and those that its finding names
    "the watchdog aborts a rank that waits for a frozen one": ([stopped(3, 700.0), ABORTED], (3,)),
    "its collective raises": ([stopped(3, 700.0), RAISED], (0,)),
    "somebody ends the whole job": ([stopped(3, 60.0), *(killed(rank, 2.0) for rank in range(3))], (0, 1, 2)),
    "the other writes a core file": ([killed(0, 8.0), sleeps(3, 2.0)], (0,)),
    "a frozen rank is killed": ([killed(3)], (3,)),
}


@pytest.mark.parametrize(("faults", "ranks"), ONE_FAULT.values(), ids=ONE_FAULT)
def test_what_follows_from_a_fault_does_not_join(faults, ranks):
    single = finding_about(*faults)
    assert not single.evidence.joined
    assert single.ranks == ranks


# -- a death after a finding that only silence shows ---------------------------------------------------------

HANGS = outside(2, sequences={"0": 300}, step_seconds=30.0, state_seconds=30.0, overdue_seconds=28.5)
STILL_HANGS = replace(HANGS, step_seconds=40.0, state_seconds=40.0, overdue_seconds=38.5)
KILLED = {"exit_status": "signal SIGKILL", **IN_COLLECTIVE}


@pytest.mark.parametrize(
    ("second", "culprit", "is_second_fault"),
    [
        pytest.param(dead(0, 2.0, **KILLED), STILL_HANGS, True, id="it is killed"),
        pytest.param(stopped(0, 2.0), STILL_HANGS, True, id="it is stopped, as no wait does"),
        pytest.param(dead(0, 20.0, **KILLED), STILL_HANGS, False, id="it died before the first finding"),
        pytest.param(dead(0, 2.0, **KILLED), waiting(2, 3.0, step=101), False, id="the culprit goes on"),
    ],
)
def test_fault_after_a_hang_was_reported_is_a_second_one(second, culprit, is_second_fault):
    hang = replace(finding_about(HANGS, rest=partial(waiting, seconds=30.0)), detected=NOW)
    later = finding_about(second, culprit, rest=partial(waiting, seconds=40.0), time=NOW + 10)
    assert (hang.ranks, later.ranks) == ((2,), (0,))
    assert follows(hang, later) is is_second_fault


@pytest.mark.parametrize("cause", ["unknown", "compute_hang"])
def test_account_of_victims_goes_with_the_summary_that_has_it(cause):
    hang = finding(cause="compute_hang", severity="warning", summary="rank 2 hangs; victims: rank 0 exited")
    hang = replace(hang, evidence=StallEvidence(victims="rank 0 exited"))
    worse = updated(hang, finding(cause=cause, severity="critical", summary="rank 2 hangs"), may_publish=False)
    assert (worse.summary, worse.evidence.victims) == ("rank 2 hangs", UNSET)


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


@settings(deadline=None)  # on a busy machine an example takes any time
@given(FAULTS, FAULTS)
def test_joined_finding_has_each_culprit_once(first, second):
    merged = joined(first, second)
    assert set(merged.ranks) == set(first.ranks) | set(second.ranks)
    assert len(merged.ranks) == len(set(merged.ranks))
    assert dict(zip(merged.ranks, merged.hosts, strict=False)) == {rank: f"node-{rank // 2}" for rank in merged.ranks}


@settings(deadline=None)  # on a busy machine an example takes any time
@given(FAULTS, FAULTS)
def test_joined_finding_has_the_higher_severity(first, second):
    orders = severity_order(first.severity), severity_order(second.severity)
    assert severity_order(joined(first, second).severity) == max(orders)


@settings(deadline=None)  # on a busy machine an example takes any time
@given(FAULTS, FAULTS)
def test_joined_finding_continues_the_first_one(first, second):
    merged = joined(first, second)
    assert (merged.id, merged.cause, merged.onset) == (first.id, first.cause, first.onset)
