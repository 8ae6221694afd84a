"""Tests of the step in the box since which losses are not finite."""

import pytest

from tests.boxes import read_part
from zmon.probe.losses import BACKWARD, REPORT

NAN, INF = float("nan"), float("inf")
UNKNOWN = -1  # no loss was noted
# Losses with their steps → the step since which they are not finite, None if they are finite.
CASES = {
    "none": ([], UNKNOWN),
    "finite": ([(1, 0.5), (2, 0.4)], None),
    "NaN": ([(1, 0.5), (7, NAN), (8, NAN)], 7),
    "infinite": ([(1, 0.5), (7, -INF), (8, NAN)], 7),
    "from the first step on": ([(1, NAN), (2, NAN)], 1),
    "step 0 of a job that counts from 0": ([(0, NAN), (1, NAN)], 0),
    "a step with finite losses ends the run once the next one begins": ([(7, NAN), (8, 0.5), (9, 0.5)], None),
    "a step with a finite loss does not yet end the run": ([(7, NAN), (8, 0.5)], 7),
    "one of two losses in each step is NaN": ([(7, 0.5), (7, NAN), (8, 0.5), (8, NAN), (9, 0.5), (9, NAN)], 7),
    "a finite loss in the step of a NaN does not end the run": ([(7, NAN), (7, 0.5)], 7),
    "finite and NaN losses in both steps": ([(7, 0.5), (7, NAN), (8, NAN), (8, 0.5)], 7),
    "a second run": ([(7, NAN), (8, 0.5), (9, 0.5), (20, NAN), (21, NAN)], 20),
    "a job that goes back to an earlier step": ([(20, NAN), (10, 0.5), (12, NAN)], 12),
}


@pytest.mark.parametrize(("losses", "since"), CASES.values(), ids=CASES)
@pytest.mark.parametrize(("source", "name"), [(BACKWARD, "backward"), (REPORT, "report")])
def test_box_has_the_step_since_which_losses_are_not_finite(box, losses, since, source, name):
    for step, loss in losses:
        box.ledger.losses.note(source, step, loss)
    assert read_part(box, "not_finite_since") == ({} if since == UNKNOWN else {name: since})


def test_box_is_written_when_a_run_begins_or_ends_only(box):
    writes = []
    box.ledger.losses._write = lambda *steps: writes.append(steps)
    for step in range(1000):
        box.ledger.losses.note(BACKWARD, step, NAN if 100 <= step < 200 else 0.5)
    assert len(writes) == 3  # finite, not finite, finite again


def test_reported_values_count_if_they_are_a_loss(box):
    box.ledger.report({"auc": NAN}, 5)
    assert read_part(box, "not_finite_since") == {}
    box.ledger.report({"auc": NAN, "train_loss": 0.5}, 6)
    assert read_part(box, "not_finite_since") == {"report": None}
    box.ledger.report({"train_loss": 0.5, "normalized_entropy": NAN}, 7)
    assert read_part(box, "not_finite_since") == {"report": 7}
