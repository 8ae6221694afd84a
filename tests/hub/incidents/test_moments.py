"""What happened when, on one clock, and which clock where it is not the hub's."""

from dataclasses import replace

import pytest

from tests.build import NOW, finding, killed, raised
from zmon.hub.incidents import moments
from zmon.hub.incidents.moments import HostClock, Suspected
from zmon.schema.host import KernelEvent


def test_incident_begins_with_the_first_sign_and_the_finding():
    told = [*moments.begun(finding())]
    assert [(m.time, m.what, m.who) for m in told] == [
        (NOW - 2, "first sign of it, at step 100", "rank 2 on node-a"),
        (NOW, "found: rank_frozen, critical", "rank 2 on node-a"),
    ]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"summary": "another"}, []),
        ({"cause": "compute_hang"}, ["refined: rank_frozen → compute_hang"]),
        ({"ranks": (3,)}, ["refined: rank_frozen → rank_frozen"]),
    ],
)
def test_refinement_is_told_and_a_new_wording_is_not(change, said):
    assert [m.what for m in moments.refined(finding(), finding(**change), NOW)] == said


def test_severity_that_rises_to_critical_says_that_it_pages():
    (told,) = moments.worse(finding(severity="warning"), finding(), NOW + 30)
    assert told.what == "severity: warning → critical; it pages from now on"


def test_suspicions_are_one_line_for_each_reason_of_a_culprit_first():
    heard = [Suspected(NOW + r / 10, r, "overdue", "node-a") for r in range(4)] + [
        Suspected(NOW, 2, "stopped", "node-a")
    ]
    told = [*moments.suspicions(heard, finding())]
    assert [(m.time, m.what, m.who) for m in told] == [
        (NOW + 0.2, "suspected: overdue", "rank 2 and 3 more, by the agent on node-a"),
        (NOW, "suspected: stopped", "rank 2, by the agent on node-a"),
    ]


@pytest.mark.parametrize(
    ("ahead", "time", "said"),
    [
        (None, NOW, "by node-b's own clock"),
        (0.02, NOW - 0.02, None),
        (30.0, NOW - 30.0, "node-b's clock is 30.0 s ahead: corrected"),
        (-4.0, NOW + 4.0, "node-b's clock is 4.0 s behind: corrected"),
    ],
)
def test_other_clocks_are_corrected_and_named(ahead, time, said):
    told = HostClock("node-b", ahead).moment(NOW, "kernel:  a\nline", "node-b")
    assert (told.time, told.what, told.clock) == (time, "kernel: a line", said)


def test_kernel_events_of_the_last_minutes_only():
    events = [KernelEvent(NOW - 700, "xid", None, "old"), KernelEvent(NOW - 5, "oom", None, "Killed process 7")]
    (told,) = moments.kernel_events(events, HostClock("node-a", 0.0), NOW)
    assert (told.what, told.who) == ("kernel: Killed process 7", "node-a")


def test_last_words_of_the_dead_by_their_own_clock():
    (told,) = moments.last_words([raised(2), killed(1)], {"node-a": HostClock("node-a", 10.0)})
    assert told.what == "last words: builtins.ValueError: bad batch 17"
    assert told.time == NOW - 11
    assert "10.0 s ahead" in told.clock


def test_evidence_that_did_not_come_is_not_said_to_have():
    gone = {
        "stacks": {"2": {"stack": None}},
        "stderr_tail": {"2": {"text": "x", "error": None, "path": None, "shared": False}},
    }
    assert moments.gathered(NOW, finding(evidence=gone)).what == "evidence gathered: last lines, steps"


def test_resolution_counts_from_the_first_sign():
    assert moments.resolved(replace(finding(), resolved=NOW + 8)).what == "resolved, 10.0 s after the first sign"


def test_timeline_is_in_order_and_tells_nothing_twice():
    told = [*moments.begun(finding())]
    assert moments.in_order([*reversed(told), *told]) == tuple(told)


def test_moment_told_by_a_clock_that_was_asked_twice_is_told_once():
    event = KernelEvent(NOW - 5, "xid", None, "NVRM: Xid 79")
    told = [m for ahead in (30.0, 30.1, 29.9) for m in moments.kernel_events([event], HostClock("node-a", ahead), NOW)]
    assert len(moments.in_order(told)) == 1
    later = replace(event, time=NOW - 4)
    assert len(moments.in_order([*told, *moments.kernel_events([later], HostClock("node-a", 30.0), NOW)])) == 2


def test_timeline_that_is_full_says_so_once_and_takes_no_more():
    told = [*moments.begun(finding())]
    for number in range(1000):
        told = moments.extended(told, moments.refined(finding(), finding(ranks=(number + 3,)), NOW + number))
    assert len(told) == moments.MAX_MOMENTS + 1
    assert [m.what for m in told[:2]] == ["first sign of it, at step 100", "found: rank_frozen, critical"]
    assert told[-1].what.startswith("it goes on so")
    assert sum(m.what.startswith("it goes on so") for m in told) == 1
