"""Tests of ranks that work on after the others have finished."""

import pytest

from tests.build import finished, killed
from tests.detectors.stalls import detect, inside, outside


def after_the_end(seconds, *rest):
    """Return the finding about rank 0, which has gone on for this time; the others are `rest`."""
    times = {"step_seconds": seconds, "state_seconds": seconds, "overdue_seconds": seconds - 1.5}
    return detect(outside(0, "other", **times), *rest)


def all_finished(seconds):
    return [finished(rank, seconds - 1) for rank in (1, 2, 3)]


@pytest.mark.parametrize("seconds", [5.0, 30.0, 59.0])
def test_rank_that_uploads_its_model_after_the_others_finished_is_quiet(seconds):
    assert after_the_end(seconds, *all_finished(seconds)) is None


@pytest.mark.parametrize(("seconds", "severity"), [(61.0, "warning"), (299.0, "warning"), (301.0, "critical")])
def test_rank_that_goes_on_for_minutes_after_the_others_is_named(seconds, severity):
    finding = after_the_end(seconds, *all_finished(seconds))
    assert (finding.cause, finding.ranks, finding.severity) == ("compute_hang", (0,), severity)
    assert "all 3 others have finished" in finding.summary


def test_rank_that_others_wait_for_is_not_quiet():
    waits = inside(1, sequences={"0": 301}, seconds=30.0)
    finding = after_the_end(30.0, waits, *all_finished(30.0)[1:])
    assert finding.severity == "critical"


def test_rank_whose_peer_was_killed_is_not_quiet():
    assert after_the_end(30.0, *all_finished(30.0)[:2], killed(3, 29.0)).cause == "rank_exited"
