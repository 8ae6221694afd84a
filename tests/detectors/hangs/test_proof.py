"""Tests of the proof of findings about hangs: zmon acts on none that only silence proves."""

from dataclasses import replace
from functools import partial

import pytest

from tests.build import waiting
from tests.detectors.hangs.awaited import alone
from tests.detectors.hangs.looks import LOCK, SLEEPS, SPINS, locked, served
from tests.detectors.hangs.table import SECTIONS
from tests.detectors.stalls import STALL, inside, job, outside, stopped
from zmon.schema.names import LINK, PROCESS_STATE, SEQUENCE, SILENCE, STACKS
from zmon.schema.names import LOCK as BOX_LOCK  # released: the rank has ended

PROOFS = {  # by section of docs/hangs.md, those of its critical findings
    "Ranks are in different collectives": {SEQUENCE},
    "Ranks entered two groups in a different order": {SEQUENCE},
    "A rank skipped a collective": {SEQUENCE},
    "Ranks wait for ranks in no collective": {SILENCE},
    "The job has one rank": {PROCESS_STATE, STACKS, SILENCE},
    "Flight records show more than Python sees": {SEQUENCE, LINK, BOX_LOCK},
    "Ranks have left": {SEQUENCE},
    "Nobody waits for the ranks that go on": {SEQUENCE, BOX_LOCK, SILENCE},
    "The training is over": {BOX_LOCK, STACKS, SILENCE},
    "Processes do not end": {BOX_LOCK, SILENCE},
    "Leases of other activities": {SILENCE},
    "Some ranks never train": {SILENCE},
    "Processes do not run": {PROCESS_STATE, SILENCE},  # silence: a process in uninterruptible sleep
    "Somebody stopped processes on purpose": {PROCESS_STATE, SILENCE},
    "The awaited rank works": {SILENCE},
    "The awaited rank waits for its own host": {STACKS},
    "All ranks start data loaders": {SILENCE},
    "The awaited rank waits for a server or a driver": {SILENCE},
    "Silence becomes critical": {SILENCE},
    "Pauses of this length healed at this place": {SILENCE},
    "Ranks move without a step": {SILENCE},
    "The summary says where ranks stand": {PROCESS_STATE},
}


@pytest.mark.parametrize("section", SECTIONS)
def test_critical_findings_of_a_section_have_these_proofs(section):
    findings = [finding for row in SECTIONS[section] for finding in STALL.detect(row.job)]
    assert {f.proof for f in findings if f.severity == "critical"} == PROOFS[section]


@pytest.mark.parametrize(
    ("state", "seconds", "severity", "proof"),
    [
        pytest.param("T", 5.0, "critical", PROCESS_STATE, id="a signal"),
        pytest.param("F", 5.0, "critical", PROCESS_STATE, id="the freezer"),
        pytest.param("t", 5.0, "warning", SILENCE, id="a debugger"),
        pytest.param("t", 400.0, "critical", SILENCE, id="a debugger for a long time"),
    ],
)
def test_rank_that_somebody_holds_on_purpose_proves_nothing(state, seconds, severity, proof):
    (finding,) = STALL.detect(job(replace(stopped(2, seconds), process_state=state), rest=inside))
    assert (finding.severity, finding.proof) == (severity, proof)


def test_ranks_that_were_all_suspended_prove_nothing_however_long():
    (finding,) = STALL.detect(job(rest=partial(stopped, seconds=2000.0)))
    assert (finding.severity, finding.proof) == ("critical", SILENCE)


@pytest.mark.parametrize(
    ("standing", "proof"),
    [
        pytest.param(SLEEPS, STACKS, id="sleeps unchanged"),
        pytest.param(locked(30.0, ("hrtimer_nanosleep",)), STACKS, id="unchanged"),
        pytest.param(locked(9.0, ("hrtimer_nanosleep",)), SILENCE, id="changed a moment ago"),
        pytest.param(SPINS, SILENCE, id="spins"),
        pytest.param(served(60.0, "ep_poll"), SILENCE, id="nothing known"),
        pytest.param(None, SILENCE, id="no look"),
    ],
)
def test_silence_that_became_critical_is_proven_by_looks_that_saw_no_change(standing, proof):
    away = outside(2, step_seconds=25.0, state_seconds=25.0, overdue_seconds=23.5)
    scene = job(away, rest=partial(waiting, seconds=25.0), standing={2: standing} if standing else {})
    (finding,) = STALL.detect(scene)
    assert (finding.severity, finding.proof) == ("critical", proof)


def test_last_rank_of_a_job_that_has_finished_proves_nothing():
    (finding,) = STALL.detect(replace(alone(301.0), standing={0: locked(200.0)}))
    assert (finding.severity, finding.proof) == ("critical", SILENCE)


def test_lock_that_nobody_releases_is_a_proof_before_silence_would_be_critical():
    away = outside(2, step_seconds=9.0, state_seconds=9.0, overdue_seconds=7.5)
    scene = job(away, rest=partial(waiting, seconds=9.0), standing={2: locked(6.0, LOCK)})
    (finding,) = STALL.detect(scene)
    assert (finding.severity, finding.proof) == ("critical", STACKS)
