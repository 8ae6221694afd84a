"""Tests of words from a newer zmon, such as an activity or a severity: they are shown unchanged."""

import json
from dataclasses import replace

import msgspec
import pytest

from tests.build import NOW, agent_report, agent_status, finding, job_steps, measures, rank_state, snapshot, words
from tests.metrics.scene import JOB_VIEW, hub, page, value
from tests.steps import totals_of
from zmon.detectors import ALL
from zmon.hub.api.view import job_state
from zmon.hub.journal import Journal
from zmon.job.timeline import snapshots
from zmon.schema.api.agent import AgentReport
from zmon.schema.finding import Finding
from zmon.schema.names import ACTIVITIES, OPS, PHASES, in_order, severity_order
from zmon.schema.rank import EnteredCollective, InFlight

NEWER = {
    "activity": "tune",
    "phase": "quantize",
    "totals": totals_of(measures({"forward": 1.0, "quantize": 0.5}, {"all_reduce": 1.0, "all_to_allv": 0.25})),
    "in_flight": InFlight("all_to_allv", "0", 7, 100, 0.25),
    "entered": (EnteredCollective("all_to_allv", "0", 7, 100),),
    "last_words": words("oom", "kernel", "out of memory"),
    "between_seconds": {"init": 1.0, "tune": 7.0},
}
STEPS = {"phases": {"forward": 0.01, "quantize": 0.005}, "ops": {"all_to_allv": 0.01}}


def over_the_wire(value, type_):
    """Return the value as this version decodes it."""
    return msgspec.json.decode(msgspec.json.encode(value), type=type_)


def newer_report(**changes):
    """Return a report with four ranks of a newer agent, as the hub decodes it."""
    states = [rank_state(rank, **{**NEWER, **changes}) for rank in range(4)]
    return over_the_wire(agent_report(*states), AgentReport)


def test_words_are_unknown_to_this_version():
    assert NEWER["activity"] not in ACTIVITIES
    assert NEWER["phase"] not in PHASES
    assert NEWER["in_flight"].op not in OPS


def test_snapshot_of_a_newer_agent_is_decoded_unchanged():
    (state, *_) = newer_report().ranks
    assert (state.activity, state.phase, state.in_flight.op) == ("tune", "quantize", "all_to_allv")
    assert state.last_words.kind == "oom"
    assert state.totals["phase_quantize"] == 0.5


def test_metrics_show_unknown_words_beside_known_ones():
    text = page(*newer_report().ranks)
    assert value(text, "zmon_activity", rank="1", activity="tune") == 1
    assert value(text, "zmon_activity", rank="1", activity="train") == 0
    assert value(text, "zmon_phase_seconds_total", rank="1", phase="quantize") == 0.5
    assert value(text, "zmon_collective_exposed_seconds_total", rank="1", op="all_to_allv") == 0.25


def test_state_of_the_job_is_the_unknown_activity():
    (job,) = snapshots([newer_report()], [], [agent_status()], NOW)
    assert job_state(job, ()) == "tune"


STATES = {
    "moving": {},
    "overdue": {"overdue_seconds": 30.0, "state_seconds": 40.0, "activity_seconds": 60.0},
    "overdue in training": {"activity": "train", "overdue_seconds": 30.0, "state_seconds": 40.0, "step_seconds": 40.0},
    "gone": {"alive": False, "gone_seconds": 5.0, "exit_status": "exit code 1"},
}


@pytest.mark.parametrize("detector", ALL, ids=lambda detector: detector.name)
@pytest.mark.parametrize("changes", STATES.values(), ids=STATES)
def test_detectors_handle_unknown_words(detector, changes):
    (job,) = snapshots([newer_report(**changes)], [], [agent_status()], NOW)
    findings = detector.detect(replace(job, steps=job_steps(64, **STEPS)))
    assert all(isinstance(finding_, Finding) for finding_ in findings)
    detector.inert_reason(job)


def test_severity_of_a_newer_hub_is_decoded_and_shown_unchanged(tmp_path):
    fatal = over_the_wire(finding(severity="fatal"), Finding)
    assert value(hub([fatal]), "zmon_finding", severity="fatal", rank="2") == 1
    path = tmp_path / "findings.jsonl"
    Journal(path).open_or_update(fatal, NOW)
    (read_back,) = Journal(path).active()
    assert read_back.severity == "fatal"
    assert json.loads(path.read_text().splitlines()[0])["severity"] == "fatal"


def test_unknown_severity_is_between_warning_and_critical(tmp_path):
    severities = ["critical", "fatal", "info", "warning"]
    assert sorted(severities, key=severity_order) == ["info", "warning", "fatal", "critical"]
    journal = Journal(tmp_path / "findings.jsonl")
    journal.open_or_update(finding(severity="fatal"), NOW)
    journal.open_or_update(finding(severity="warning"), NOW + 1)
    assert journal.active()[0].severity == "fatal", "a severity only rises"
    journal.open_or_update(finding(severity="critical"), NOW + 2)
    assert journal.active()[0].severity == "critical"


def test_time_category_of_a_newer_hub_is_shown():
    text = hub(jobs=[replace(JOB_VIEW, time={"tune": 7.0})])
    assert value(text, "zmon_job_time_seconds_total", cause="tune") == 7
    assert value(text, "zmon_job_time_seconds_total", cause="eval") == 0


def test_unknown_words_are_sorted_after_known_ones():
    assert in_order(["zip", "backward", "data", "quantize"], PHASES) == ("data", "backward", "quantize", "zip")


def test_detectors_handle_newer_and_older_ranks_in_a_snapshot():
    """During an update some nodes run the newer zmon already."""
    mixed = snapshot(*newer_report().ranks[:2], rank_state(2), rank_state(3))
    for detector in ALL:
        detector.detect(replace(mixed, steps=job_steps(64, STEPS, STEPS, {}, {})))
