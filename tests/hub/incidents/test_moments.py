"""Tests of an incident's timeline. All times are on the hub's clock, or marked with the clock they come from."""

from dataclasses import replace

import pytest

from tests.build import NOW, finding, killed, raised, snapshot
from zmon.hub.incidents import moments
from zmon.hub.incidents.moments import HostClock, Suspected
from zmon.schema.host import KernelEvent


def test_incident_begins_with_the_first_sign_and_the_finding():
    timeline = [*moments.opening(finding())]
    assert [(m.time, m.what, m.who) for m in timeline] == [
        (NOW - 2, "first sign at step 100", "rank 2 on node-a"),
        (NOW, "finding opened: rank_frozen, critical", "rank 2 on node-a"),
    ]
    assert moments.in_order([*reversed(timeline), *timeline]) == tuple(timeline)


@pytest.mark.parametrize(
    ("changes", "texts"),
    [
        ({"cause": "compute_hang"}, ["diagnosis changed: rank_frozen → compute_hang"]),
        ({"ranks": (3,)}, ["culprits changed"]),
        ({"summary": "another"}, []),
    ],
    ids=["another cause", "other ranks", "another summary of the same diagnosis"],
)
def test_another_diagnosis_is_a_moment(changes, texts):
    assert [m.what for m in moments.diagnosis_changes(finding(), finding(**changes), NOW)] == texts


def test_evidence_that_was_gathered_is_a_moment():
    tail = {"2": {"text": "x", "error": None, "path": None, "shared": False}}
    gathered = moments.evidence_gathered(NOW, finding(evidence={"stacks": {"2": {"stack": None}}, "stderr_tail": tail}))
    assert gathered.what == "evidence gathered: last lines, steps"  # no stack


def test_rise_of_the_severity_and_end_of_an_incident_are_moments():
    (rise,) = moments.severity_changes(finding(severity="warning"), finding(), NOW + 30)
    assert rise.what == "severity: warning → critical; it pages from now on"
    assert moments.resolution(replace(finding(), resolved=NOW + 8)).what == "resolved, 10.0 s after the first sign"


def test_suspicions_are_merged_by_reason_with_the_culprit_first():
    suspected = [Suspected(NOW + rank / 10, rank, "overdue", "node-a") for rank in range(4)]
    suspected.append(Suspected(NOW, 2, "stopped", "node-a"))
    timeline = [*moments.suspicions(suspected, finding())]
    assert [(m.time, m.what, m.who) for m in timeline] == [
        (NOW + 0.2, "suspected: overdue", "rank 2 and 3 more, by the agent on node-a"),
        (NOW, "suspected: stopped", "rank 2, by the agent on node-a"),
    ]


@pytest.mark.parametrize(
    ("ahead", "time", "expected"),
    [
        (None, NOW, "time of node-b's clock, not corrected"),
        (0.02, NOW - 0.02, None),
        (30.0, NOW - 30.0, "node-b's clock is 30.0 s ahead: corrected"),
        (-4.0, NOW + 4.0, "node-b's clock is 4.0 s behind: corrected"),
    ],
)
def test_times_of_other_clocks_are_corrected_with_a_mark(ahead, time, expected):
    moment = HostClock("node-b", ahead).moment(NOW, "kernel:  a\nline", "node-b")
    assert (moment.time, moment.what, moment.clock) == (time, "kernel: a line", expected)


def test_kernel_events_of_the_last_minutes_only():
    events = [KernelEvent(NOW - 700, "xid", None, "old"), KernelEvent(NOW - 5, "oom", None, "Killed process 7")]
    (moment,) = moments.kernel_events(events, HostClock("node-a", 0.0), NOW)
    assert (moment.what, moment.who) == ("kernel: Killed process 7", "node-a")


def test_what_happened_to_a_rank_has_the_times_by_which_the_detectors_decide():
    ranks = raised(2, 1.0), killed(1, 0.5, launcher_gone_seconds=0.25, launcher_status="signal SIGTERM")
    assert [(m.time, m.what, m.who) for m in moments.in_order(moments.rank_moments(snapshot(*ranks), ranks))] == [
        (NOW - 1.0, "raised: builtins.ValueError: bad batch 17", "rank 2 on node-a"),
        (NOW - 1.0, "process ended: exit code 1", "rank 2 on node-a"),
        (NOW - 0.5, "process ended: signal SIGKILL", "rank 1 on node-a"),
        (NOW - 0.25, "launcher ended: signal SIGTERM", "node-a"),
    ]


def test_same_event_from_several_clock_readings_is_a_single_moment():
    event = KernelEvent(NOW - 5, "xid", None, "NVRM: Xid 79")
    later = replace(event, time=NOW - 4)

    def read(event, ahead=30.0):
        (moment,) = moments.kernel_events([event], HostClock("node-a", ahead), NOW)
        return moment

    timeline = [read(event, ahead) for ahead in (30.0, 30.1, 29.9)]
    assert len(moments.in_order(timeline)) == 1
    assert len(moments.in_order([*timeline, read(later)])) == 2


def test_full_timeline_ends_with_a_single_note():
    timeline = [*moments.opening(finding())]
    for number in range(1000):
        changes = moments.diagnosis_changes(finding(), finding(ranks=(number + 3,)), NOW + number)
        timeline = moments.extended(timeline, changes)
    assert len(timeline) == moments.MAX_MOMENTS + 1
    assert [m.what for m in timeline[:2]] == ["first sign at step 100", "finding opened: rank_frozen, critical"]
    assert timeline[-1].what.startswith("many changes")
    assert sum(m.what.startswith("many changes") for m in timeline) == 1
