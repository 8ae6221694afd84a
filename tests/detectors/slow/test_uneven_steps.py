"""Tests of the findings about uneven steps: another rank is slow in each step, and no rank is at fault.

The quiet cases are jobs that lose little, that lose it for a moment, or in which one rank is always slow.
"""

from dataclasses import replace

import pytest

from tests.build import dead, rank_state
from tests.detectors.slow.uneven_jobs import detect, even, findings, job, late_in
from tests.steps import changed
from zmon.detectors import ALL
from zmon.detectors.slow.imbalance import Imbalance
from zmon.detectors.suppression import suppress

JITTER = 0.150  # seconds by which the late rank is late in its step


def slow_loader(draw):
    return late_in("data", JITTER, draw)


def slow_computing(draw):
    return late_in("forward", JITTER, draw)


def remaining(snapshot):
    """Return the causes that are left after suppression."""
    left = suppress({detector.name: detector.detect(snapshot) for detector in ALL}).findings
    return sorted(finding.cause for of_detector in left.values() for finding in of_detector)


@pytest.mark.parametrize(
    ("step", "cause", "phase"),
    [(slow_loader, "input_jitter", "data"), (slow_computing, "compute_jitter", "forward")],
    ids=["data", "forward"],
)
def test_loss_to_another_rank_in_each_step_is_a_warning_without_a_culprit(step, cause, phase):
    result = detect((90, step))
    assert (result.detector, result.cause, result.severity) == ("imbalance", cause, "warning")
    assert (result.ranks, result.hosts, result.op) == ((), (), None)
    assert "another one in each step" in result.summary
    assert f"(mostly in {phase})" in result.summary
    assert result.runbook == f"docs/runbooks.md#{cause}"
    assert result.evidence.lost_ratio_by_phase[phase] > 0.95


def test_summary_has_what_evenness_would_save():
    """A step of 400 ms loses three quarters of 150 ms: it would do 1.39 times as many samples."""
    result = detect((90, slow_loader))
    assert result.evidence.cost_ratio == pytest.approx(0.28, abs=0.02)
    assert "28% of each step is lost" in result.summary or "29% of each step is lost" in result.summary
    assert result.evidence.saved_seconds == pytest.approx(0.1125, rel=0.1)
    assert "samples/s instead of 3" in result.summary


def test_samples_are_left_out_if_a_rank_does_not_report_them():
    assert "samples/s" not in detect((90, slow_loader), samples=None).summary


@pytest.mark.parametrize("size", [2, 4, 16])
def test_loss_is_found_in_jobs_of_all_sizes(size):
    assert detect((60, lambda draw: late_in("data", 0.3, draw, size)), size=size).cause == "input_jitter"


@pytest.mark.parametrize("every", [1, 8])
def test_loss_is_found_in_sampled_steps(every):
    assert detect((60, slow_loader), scale=0.1, every=every).cause == "input_jitter"


def test_copies_to_the_device_are_input():
    assert detect((90, lambda draw: late_in("h2d", JITTER, draw))).cause == "input_jitter"


def test_loss_is_noted_before_it_is_a_warning():
    """28 % of each step: 8 s are lost after 29 s, and 20 s after 71 s."""
    assert detect((20, slow_loader)) is None
    assert detect((50, slow_loader)).severity == "info"
    assert detect((90, slow_loader)).severity == "warning"


def test_loss_of_most_of_the_step_is_a_warning_within_a_minute():
    assert detect((60, lambda draw: late_in("data", 0.6, draw))).severity == "warning"


def test_loss_that_the_work_explains_is_a_work_imbalance():
    amounts = [[1000 * factor for factor in row] for row in ((1, 3, 1, 2), (2, 1, 3, 1), (3, 1, 2, 1), (1, 2, 1, 3))]
    numbers = iter(range(1, 10_000))

    def step(draw):
        row = amounts[next(numbers) % 4]
        return [{"data": 0.010, "forward": 0.080 * work / 1000} for work in row]

    result = detect((90, step), lookups=amounts)
    assert (result.cause, result.ranks, result.severity) == ("work_imbalance", (), "warning")
    assert result.evidence.worked_ratio > 0.9
    assert "its samples, tokens, lookups or bytes of that step" in result.summary


def test_loss_that_the_work_does_not_explain_is_jitter():
    amounts = [[1000 * factor for factor in row] for row in ((1, 3, 1, 2), (2, 1, 3, 1), (3, 1, 2, 1), (1, 2, 1, 3))]
    assert detect((90, slow_loader), lookups=amounts).cause == "input_jitter"


def test_rank_that_is_slow_in_some_steps_only_is_in_the_text():
    """Rank 2 waits for its data in a third of the steps: not often enough to be a straggler."""

    def sometimes(draw):
        return late_in("data", 0.4 if draw.random() < 0.33 else 0.0, draw, ranks=(2,))

    result = detect((90, sometimes))
    assert (result.cause, result.ranks) == ("input_jitter", ())
    assert "rank 2 for 9" in result.summary or "rank 2 for 100%" in result.summary


# -- quiet -------------------------------------------------------------------------------------------------


def test_imbalance_reports_nothing_if_ranks_vary_little():
    assert detect((180, even)) is None


def test_imbalance_reports_nothing_if_less_than_a_tenth_is_lost():
    """Another rank is 30 ms late in each step of 280 ms: 8 % are lost."""
    assert detect((300, lambda draw: late_in("data", 0.030, draw))) is None


@pytest.mark.parametrize("late", [0.03, 0.2], ids=["slightly", "much"])
def test_imbalance_reports_no_jitter_if_one_rank_is_always_slow(late):
    assert detect((180, lambda draw: late_in("forward", late, draw, ranks=(1,)))) is None


def test_imbalance_reports_nothing_if_pooling_varies_equally_on_all_ranks():
    def step(draw):
        factor = draw.uniform(1, 5) / 3
        return [{**phases, "forward": phases["forward"] * factor} for phases in even(draw)]

    assert detect((180, step)) is None


@pytest.mark.parametrize("before", [0, 7, 60, 63])
@pytest.mark.parametrize("after", [0, 3, 15, 40])
def test_imbalance_reports_nothing_when_cores_are_contended_for_two_seconds(before, after):
    def contended(draw):
        return [{**phases, "forward": phases["forward"] * draw.uniform(1, 6)} for phases in even(draw)]

    assert detect((before, even), (2, contended), (after, even)) is None


def test_imbalance_reports_nothing_when_a_rank_pauses_for_ten_steps():
    assert detect((60, even), (0.1, lambda draw: late_in("forward", 2.5, draw)), (30, even)) is None


def test_pause_of_a_host_neither_makes_a_small_loss_a_warning_nor_changes_its_cause():
    small = (28, lambda draw: late_in("forward", 0.150, draw))
    paused = detect(small, (0.1, lambda draw: late_in("data", 40.0, draw)), small)
    assert (paused.cause, paused.severity) == ("compute_jitter", "info")


def test_imbalance_reports_nothing_while_a_job_warms_up():
    """The first steps fill caches and queues, on each rank at another time."""
    assert detect((10, slow_loader), (20, even)) is None
    assert detect((10, slow_loader), (60, even)) is None


def test_imbalance_reports_nothing_when_caches_are_cold_after_an_evaluation():
    assert detect((60, even), (4, slow_loader), (5, even)) is None


def test_imbalance_reports_nothing_for_noise_of_short_steps():
    """Steps of 2 ms vary by a third; the scheduler of the operating system alone does that."""
    assert detect((30, lambda draw: even(draw, spread=0.35)), scale=0.008, every=64) is None


def test_imbalance_reports_nothing_if_ranks_do_not_wait_for_each_other():
    assert detect((90, slow_loader), op=None) is None


def test_ranks_that_meet_every_tenth_step_only_lose_little():
    """Local SGD: the ranks vary, but wait for each other in one step of ten."""
    snapshot = job((90, slow_loader))
    alone = [changed(s, exposed={"all_reduce": (0.0,) * 4}) if s.step % 10 else s for s in snapshot.steps]
    windows = [replace(window, lost_ratio=window.lost_ratio / 10) for window in snapshot.step_windows]
    assert findings(replace(snapshot, steps=tuple(alone), step_windows=tuple(windows))) == ()


def test_pause_that_every_sample_hits_does_not_count_for_all_steps():
    """Every eighth step has a pause on some rank, and every eighth step is sampled."""
    numbers = iter(range(1, 100_000))

    def step(draw):
        return late_in("forward", 0.100 if next(numbers) % 8 == 0 else 0.0, draw)

    assert detect((60, step), scale=0.1, every=8) is None


def test_imbalance_ignores_uneven_steps_of_an_ended_job():
    ended = replace(job((90, slow_loader)), ranks=tuple(dead(rank) for rank in range(4)))
    assert findings(ended) == ()


def test_imbalance_reports_nothing_before_the_windows_know_what_is_lost():
    """A hub of an older version did not measure it."""
    snapshot = job((90, slow_loader))
    older = tuple(replace(window, lost_ratio=None) for window in snapshot.step_windows)
    assert findings(replace(snapshot, step_windows=older)) == ()


# -- together with other findings --------------------------------------------------------------------------


def test_straggler_is_reported_alone():
    """One rank is always slow, and another one is late in each step."""

    def step(draw):
        row = late_in("data", JITTER, draw)
        return [{**phases, "forward": phases["forward"] + 0.4 * (rank == 3)} for rank, phases in enumerate(row)]

    assert remaining(job((60, even), (60, step))) == ["compute_straggler"]


def test_straggler_is_not_reported_if_the_slow_rank_changes():
    assert remaining(job((90, slow_loader))) == ["input_jitter"]


def test_stall_silences_uneven_steps():
    stalled = job((90, slow_loader), ranks=(*map(rank_state, range(3)), dead(3)))
    assert remaining(stalled) == ["rank_exited"]


# -- resolution --------------------------------------------------------------------------------------------


def test_finding_resolves_when_the_loaders_keep_up_again():
    (opened,) = findings(job((90, slow_loader)))
    assert Imbalance().can_resolve(job((90, slow_loader), (30, even)), opened)


def test_finding_stays_open_while_more_than_half_of_the_threshold_is_lost():
    (opened,) = findings(job((90, slow_loader)))
    less = job((90, slow_loader), (30, lambda draw: late_in("data", 0.030, draw)))
    assert not Imbalance().can_resolve(less, opened)
    assert not Imbalance().can_resolve(job((90, slow_loader)), opened)
    assert not Imbalance().can_resolve(replace(less, steps=()), opened)


def test_finding_resolves_when_the_cause_is_another_one():
    (opened,) = findings(job((90, slow_loader)))
    assert Imbalance().can_resolve(job((90, slow_computing)), opened)


def test_each_cause_is_a_finding_of_its_own():
    """The label of the first cause is published and stays; a second fault needs its own."""
    (first,), (second,) = findings(job((90, slow_loader))), findings(job((90, slow_computing)))
    assert Imbalance.separate
    assert first.id != second.id
