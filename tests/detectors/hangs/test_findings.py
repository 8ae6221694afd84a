"""Tests of what a finding about a hang has beside cause, severity and culprits: evidence, advice, times and places."""

from dataclasses import replace
from functools import partial

import pytest

from tests.build import NOW, finished, flight, killed, snapshot, waiting
from tests.detectors.hangs.awaited import away
from tests.detectors.hangs.exits import exits
from tests.detectors.hangs.one_rank import one, only
from tests.detectors.hangs.paths import grid, in_control, in_world, pairs
from tests.detectors.hangs.records import WAITS, records
from tests.detectors.hangs.silence import LOADING, STEP, healed, loading, sleeps
from tests.detectors.stalls import STALL, inside, job, outside, stopped
from zmon.detectors.stall import Stall
from zmon.schema.limits import MAX_NAMED_MISSING


def finding_about(scene, detector=STALL):
    """Return the only finding about a job."""
    (finding,) = detector.detect(scene)
    return finding


@pytest.mark.parametrize(
    ("scene", "place"),
    [
        pytest.param(job(inside(2, "all_to_all"), rest=inside), ("0", 301), id="mismatch"),
        pytest.param(job(in_control(1), rest=in_world), ("0", 301), id="crossed"),
        pytest.param(pairs(), ("dp0", 65), id="skipped, by order"),
        pytest.param(grid(), ("tp1", 65), id="skipped, by number"),
    ],
)
def test_evidence_has_the_collective_that_can_never_end(scene, place):
    evidence = finding_about(scene).evidence
    assert (evidence.group, evidence.sequence) == place


def test_two_culprits_by_flight_records_have_less_confidence_than_one():
    alone = finding_about(records(r0=flight())).confidence
    two = finding_about(records(r0=flight(), r3=flight())).confidence
    assert alone == 0.8
    assert two < alone


def test_rank_that_never_started_has_less_confidence_than_one_in_init():
    never_started = job(*(away(rank, "init", 1805.0, 1800.0, step=0) for rank in range(3)), rest=None)
    assert finding_about(never_started).confidence < finding_about(job(away(1, "init"))).confidence


def test_finding_without_culprit_has_little_confidence():
    assert finding_about(job()).confidence < 0.5


def test_advice_about_uneven_ends_names_batch_counts_and_early_stopping():
    detail = finding_about(job(finished(3, 60.0))).detail
    assert all(text in detail for text in ("number of batches", "early stopping", "`all_reduce` the decision"))


def test_onset_is_the_last_step_of_the_rank_that_is_overdue_longest():
    finding = finding_about(job(waiting(0, 6.0)))
    assert finding.onset == NOW - 6.0
    assert "no rank has finished a step for 6.0 s" in finding.summary


def test_onset_stays_when_records_refine_the_cause():
    before = finding_about(records(records_of_rest=None, r2=None))
    after = finding_about(records(records_of_rest=WAITS, r2=flight()))
    assert (before.cause, after.cause) == ("unknown", "compute_hang")
    assert (before.onset, before.step) == (after.onset, after.step) == (NOW - 5.0, 100)


# -- silence -----------------------------------------------------------------------------------------------


def test_silence_is_in_the_evidence():
    finding = finding_about(loading(5.0))
    assert "rank 2 on node-a has waited for its data loader for 5.0 s" in finding.summary
    assert finding.summary.endswith("; it becomes critical after 20 s")
    silence = finding.evidence.silence
    assert (silence.seconds, silence.critical_seconds, silence.places) == (5.0, 20.0, (LOADING,))


def test_silence_begins_with_the_activity():
    finding = finding_about(
        job(away(0, "checkpoint", 12.0, 10.0, step_seconds=902.0), *(waiting(r, 902.0) for r in (1, 2, 3)))
    )
    assert finding.evidence.silence.seconds == 12.0


def test_thresholds_of_a_site_decide_about_the_severity():
    patient = Stall(critical_seconds=60.0, quiet_pause_ratio=2.0)
    assert finding_about(loading(59.0), patient).severity == "warning"
    assert finding_about(loading(12.0, healed(6.0)), patient).severity == "info"


# -- places and advice -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("scene", "frames"),
    [
        pytest.param(job(outside(3), rest=inside), {}, id="no stack yet"),
        pytest.param(job(outside(3), rest=inside), {0: STEP}, id="not the stack of the culprit"),
        pytest.param(job(rest=inside), {rank: f"f() at train.py:{rank}" for rank in range(4)}, id="frames differ"),
        pytest.param(job(killed(0, 900.0), rest=inside), {0: STEP, 1: LOADING.frame}, id="a rank is gone"),
    ],
)
def test_summary_has_no_frame_unless_it_is_that_of_the_culprit_or_of_all_ranks(scene, frames):
    summary = finding_about(replace(scene, frames=frames)).summary
    assert "stand" not in summary
    assert STEP not in summary


def test_summary_has_the_frame_of_the_culprit_only():
    scene = job(outside(3), rest=inside, frames={3: LOADING.frame, 0: STEP})
    assert finding_about(scene).summary.count(LOADING.frame) == 1
    assert STEP not in finding_about(scene).summary


PHASES = {
    "it computes": (only(), f"Look at {STEP}: it waits for a lock"),
    "it loads": (only("data"), f"Look at {STEP}. If it takes the next batch from workers"),
    "it saves": (only(seconds=905.0, lease=900.0, activity="checkpoint", activity_seconds=905.0), f"Look at {STEP};"),
}


@pytest.mark.parametrize(("state", "begins"), PHASES.values(), ids=PHASES)
def test_advice_about_a_job_of_one_rank_is_about_its_own_line(state, begins):
    detail = finding_about(one(state)).detail
    assert detail.startswith(begins)
    assert "collective" not in detail
    assert "never started" not in detail


def test_advice_about_a_job_of_one_rank_says_where_its_line_is_while_its_stack_is_not_known():
    assert finding_about(one(only(), frame=None)).detail.startswith(
        "Look at the innermost line of your code in its stack:"
    )


def test_summary_counts_all_missing_ranks_although_a_snapshot_names_only_the_first():
    states = [waiting(0, world_size=100), waiting(1, world_size=100)]
    scene = snapshot(*states)
    summary = finding_about(replace(scene, missing=scene.missing[:MAX_NAMED_MISSING])).summary
    assert "a rank that zmon does not see (98 of 100)" in summary


def test_advice_on_a_gpu_says_that_an_earlier_line_may_be_the_cause():
    assert "an earlier line issued" in finding_about(one(only(device="GPU-0"))).detail
    assert "an earlier line issued" not in finding_about(one(only())).detail


@pytest.mark.parametrize(
    ("scene", "continues", "thaws"),
    [
        pytest.param(job(stopped(2)), True, False, id="stopped"),
        pytest.param(job(stopped(2, process_state="F")), False, True, id="frozen"),
        pytest.param(job(sleeps(2, 4.0)), False, False, id="sleeping"),
    ],
)
def test_advice_fits_the_state_of_the_process(scene, continues, thaws):
    detail = finding_about(scene).detail
    assert ("kill -CONT 1002" in detail, "docker unpause" in detail) == (continues, thaws)


@pytest.mark.parametrize(("seconds", "looked_at"), [(59.0, []), (60.0, [0, 1, 2, 3])])
def test_hub_looks_at_processes_a_minute_after_the_end_of_their_program(seconds, looked_at):
    scene = exits(seconds, None)
    assert [r.rank for r in STALL.ranks_to_look_at(scene)] == looked_at
    assert STALL.stands_still(scene) == bool(looked_at)


@pytest.mark.parametrize(("sequence", "asks"), [(1, True), (2, False)])
def test_first_collective_asks_whether_the_hosts_reach_each_other(sequence, asks):
    (finding,) = STALL.detect(job(rest=partial(inside, sequence=sequence)))
    assert (finding.cause, "Can the hosts reach each other" in finding.detail) == ("unknown", asks)
    assert ("Look first at a rank" in finding.detail) != asks
