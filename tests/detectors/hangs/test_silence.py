"""Tests of the severity of a stall: silence is a warning that rises, proof is critical at once."""

from dataclasses import replace
from typing import Any

import pytest

from tests.build import NOW, agent_status, killed, rank_state, snapshot, waiting
from tests.detectors.stalls import STALL, detect, inside, outside, stopped
from zmon.detectors.stall import Stall
from zmon.schema.finding import Finding
from zmon.schema.pause import HealedPause, Place

LOADING = Place("data", "loader.py:40, read")


def healed(seconds: float, place: Place = LOADING) -> HealedPause:
    """Return the pauses at one place, the longest of this length."""
    return HealedPause(place, seconds, 4, NOW - 600)


def loading(
    seconds: float, *pauses: HealedPause, frame: str | None = LOADING.frame, detector: Stall = STALL
) -> Finding:
    """Return the finding about a job that waits for the loader of rank 2, which stands still at `frame`."""
    ranks = [
        waiting(0, seconds), waiting(1, seconds), waiting(3, seconds),
        waiting(2, seconds, in_flight=None, phase="data"),
    ]  # fmt: skip
    job = replace(snapshot(*ranks), frames={2: frame} if frame else {}, pauses=pauses)
    (finding,) = detector.detect(job)
    assert (finding.cause, finding.ranks) == ("input_stall", (2,))
    return finding


# -- what only silence proves ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("seconds", "severity"),
    [(1.6, "warning"), (5.0, "warning"), (19.9, "warning"), (20.0, "critical"), (600.0, "critical")],
)
def test_silence_is_a_warning_until_the_job_has_stood_still_for_twenty_seconds(seconds: float, severity: str) -> None:
    assert loading(seconds).severity == severity


def test_warning_names_the_culprit_and_says_when_it_becomes_critical() -> None:
    finding = loading(5.0)
    assert "rank 2 on node-a has waited for its data loader for 5.0 s" in finding.summary
    assert finding.summary.endswith("; it becomes critical after 20 s")
    assert finding.evidence.silence.places == (LOADING,)
    assert (finding.evidence.silence.seconds, finding.evidence.silence.critical_seconds) == (5.0, 20.0)


@pytest.mark.parametrize("phase", ["forward", "backward", "optimizer", "other"])
def test_hang_in_the_code_of_one_rank_is_a_warning_first(phase: str) -> None:
    finding = detect(outside(0, phase), waiting(1), waiting(2), waiting(3))
    assert (finding.cause, finding.severity) == ("compute_hang", "warning")


def test_unknown_stall_inside_collectives_is_a_warning_that_rises() -> None:
    assert detect(*(waiting(rank, 5.0) for rank in range(4))).severity == "warning"
    assert detect(*(waiting(rank, 21.0) for rank in range(4))).severity == "critical"


def test_overrun_of_a_long_lease_is_critical_at_once() -> None:
    saving = rank_state(0, activity="checkpoint", activity_seconds=901.0, lease_seconds=900.0, overdue_seconds=1.0,
                        step_seconds=902.0, state_seconds=901.0)  # fmt: skip
    finding = detect(saving, *(waiting(rank, 902.0) for rank in (1, 2, 3)))
    assert (finding.cause, finding.severity) == ("lease_overrun", "critical")


def test_time_since_the_begin_of_the_activity_counts_and_not_since_the_last_step() -> None:
    """Rank 0 has begun to save a second time; the job has moved since its last step."""
    saving = rank_state(0, activity="checkpoint", activity_seconds=12.0, lease_seconds=10.0, overdue_seconds=2.0,
                        step_seconds=902.0)  # fmt: skip
    finding = detect(saving, *(waiting(rank, 902.0) for rank in (1, 2, 3)))
    assert (finding.cause, finding.severity) == ("lease_overrun", "warning")
    assert finding.evidence.silence.seconds == 12.0


def test_job_with_long_steps_is_critical_when_its_lease_ends() -> None:
    late = [waiting(rank, 151.0, lease_seconds=150.0, overdue_seconds=1.0) for rank in range(4)]
    assert detect(*late).severity == "critical"


def test_uninterruptible_sleep_is_a_warning_first_because_slow_storage_may_answer() -> None:
    blocked = [outside(2, blocked_seconds=3.0, process_state="D"), *(waiting(rank) for rank in (0, 1, 3))]
    later = [
        replace(r, step_seconds=21.0, state_seconds=21.0, blocked_seconds=r.blocked_seconds and 19.0) for r in blocked
    ]
    assert [(detect(*ranks).cause, detect(*ranks).severity) for ranks in (blocked, later)] == [
        ("rank_frozen", "warning"), ("rank_frozen", "critical"),
    ]  # fmt: skip


# -- proof -------------------------------------------------------------------------------------------------


def test_proof_is_critical_at_once() -> None:
    lost = [agent_status("node-a"), agent_status("node-b", 2.5)]
    findings = {
        "process state": detect(stopped(2, 0.5), *(rank_state(rank) for rank in (0, 1, 3))),
        "lock": detect(killed(2), *(rank_state(rank) for rank in (0, 1, 3))),
        "sequence": detect(inside(0, num_bytes=8), *(inside(rank, seconds=1.6) for rank in (1, 2, 3))),
        "no majority": detect(*(inside(rank, num_bytes=8 * (rank % 2 + 1), seconds=1.6) for rank in range(4))),
        "agent": detect(*(waiting(r, 1.6) for r in range(3)), unwatched=[waiting(3, 1.6, host="node-b")], agents=lost),
        "dead beside silence": detect(
            killed(3, 70.0, exit_status="signal SIGTERM"), *(waiting(rank, 65.0) for rank in range(3))
        ),
    }
    assert {name: finding.severity for name, finding in findings.items()} == dict.fromkeys(findings, "critical")
    assert not any("it becomes critical" in finding.summary for finding in findings.values())


# -- pauses that healed ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("seconds", "severity"),
    [(2.0, "info"), (9.0, "info"), (9.1, "warning"), (19.9, "warning"), (20.0, "critical")],
)
def test_pause_within_those_that_healed_at_its_place_is_info(seconds: float, severity: str) -> None:
    assert loading(seconds, healed(6.0)).severity == severity


def test_silence_is_critical_after_three_times_the_longest_pause_that_healed_there() -> None:
    severities = [loading(seconds, healed(10.0)).severity for seconds in (15.0, 15.1, 29.9, 30.0)]
    assert severities == ["info", "warning", "warning", "critical"]


def test_silence_is_critical_after_five_minutes_whatever_healed() -> None:
    assert [loading(s, healed(250.0)).severity for s in (299.0, 300.0)] == ["info", "critical"]


def test_reason_names_the_pause_that_healed() -> None:
    assert loading(3.0, healed(10.0)).summary.endswith(
        "; it becomes critical after 30 s (a pause of 10 s at this place healed before)"
    )


def test_pause_at_another_place_stays_a_warning() -> None:
    for place in (Place("data", "loader.py:41, read"), Place("forward", LOADING.frame)):
        assert loading(5.0, healed(60.0, place)).severity == "warning"


def test_pause_without_a_stack_stays_a_warning() -> None:
    assert loading(5.0, healed(60.0), frame=None).severity == "warning"


def test_warning_waits_for_the_stack_only_if_pauses_of_this_length_healed_in_that_phase() -> None:
    def severity(*pauses: HealedPause) -> str:
        return loading(1.8, *pauses, frame=None).severity

    assert (severity(healed(6.0)), severity(), severity(healed(6.0, Place("forward", "a.py:1, f")))) == (
        "info", "warning", "warning",
    )  # fmt: skip
    assert loading(3.6, healed(6.0), frame=None).severity == "warning"  # two seconds after the lease


@pytest.mark.parametrize("frame", [None, "train.py:9, step"])
def test_rank_that_has_just_left_its_pause_stays_info_whatever_it_does_now(frame: str | None) -> None:
    """Its step is not over yet, so the job is still past its lease."""

    def severity(state_seconds: float, *pauses: HealedPause) -> str:
        away = waiting(2, 3.0, in_flight=None, phase="forward", state_seconds=state_seconds)
        job = snapshot(*(waiting(rank, 3.0) for rank in (0, 1, 3)), away)
        return STALL.detect(replace(job, frames={2: frame} if frame else {}, pauses=pauses))[0].severity

    assert (severity(0.2, healed(6.0)), severity(1.8, healed(6.0)), severity(0.2)) == ("info", "warning", "warning")


def test_every_awaited_rank_must_be_at_a_place_where_pauses_healed() -> None:
    everywhere = [waiting(rank, 5.0, in_flight=None, phase="data") for rank in range(4)]
    frames = dict.fromkeys(range(4), LOADING.frame)
    job = replace(snapshot(*everywhere), frames=frames, pauses=(healed(6.0),))
    assert STALL.detect(job)[0].severity == "info"
    assert STALL.detect(replace(job, frames={**frames, 3: "other.py:1, wait"}))[0].severity == "warning"


def test_a_site_may_set_the_times() -> None:
    patient = Stall(critical_seconds=60.0, quiet_pause_ratio=2.0)
    assert loading(59.0, detector=patient).severity == "warning"
    assert loading(12.0, healed(6.0), detector=patient).severity == "info"


# -- ranks that still move ---------------------------------------------------------------------------------


def evaluating(seconds: float, unchanged: float, **changes: Any) -> Finding:
    """Return the finding about a job that waits for rank 2, whose phase changed `unchanged` seconds ago."""
    awaited = outside(2, "data", step_seconds=seconds, overdue_seconds=seconds - 1.5, state_seconds=unchanged)
    others = [waiting(rank, seconds) for rank in (0, 1, 3)]
    (finding,) = STALL.detect(snapshot(*others, replace(awaited, **changes)))
    assert finding.ranks == (2,)
    return finding


@pytest.mark.parametrize("seconds", [25.0, 60.0, 600.0])
def test_rank_that_still_loads_batches_without_a_step_is_no_page(seconds: float) -> None:
    """It evaluates without eval mode, while the others wait."""
    finding = evaluating(seconds, unchanged=0.3)
    assert finding.severity == "warning"
    assert finding.summary.endswith("it is not critical yet, because rank 2 still changes its phase")


@pytest.mark.parametrize(("unchanged", "severity"), [(19.0, "warning"), (21.0, "critical")])
def test_rank_that_stops_in_the_middle_of_its_evaluation_is_critical_after_twenty_seconds(
    unchanged: float, severity: str
) -> None:
    assert evaluating(100.0, unchanged).severity == severity


def test_evaluation_longer_than_its_learned_lease_is_no_page_while_it_moves() -> None:
    lease = {"activity": "eval", "activity_seconds": 90.0, "lease_seconds": 60.0, "overdue_seconds": 30.0}
    assert evaluating(90.0, 0.3, **lease).severity == "warning"
    assert evaluating(90.0, 25.0, **lease).severity == "critical"


def test_ranks_that_move_without_a_step_for_half_an_hour_are_critical() -> None:
    assert evaluating(1801.0, unchanged=0.3).severity == "critical"
