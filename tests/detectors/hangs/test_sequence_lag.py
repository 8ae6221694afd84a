"""Tests of a rank whose collectives are shifted by a step, and of ranks that differ by design."""

from dataclasses import replace

import pytest

from tests.build import NOW, rank_state, snapshot
from tests.detectors.stalls import STALL
from tests.steps import aligned_step, changed

USUAL = (1000,) * 4


def step(number, sent=USUAL, stands_for=1, mean=None):
    """Return a step in which the ranks send these bytes in all-reduces."""
    amounts = {"all_reduce": sent}
    return aligned_step(
        number, stands_for, 0.02, 0, (0.0,) * len(sent), sent_bytes=amounts, received_bytes=amounts, mean=mean
    )


def job(steps, less=0, **changes):
    """Return a job with these steps; its totals are those of the steps, less `less` bytes of rank 2 from step 40."""
    ranks = len(steps[0].sent_bytes["all_reduce"])
    totals = [10**9] * ranks
    with_totals = []
    for step_ in steps:
        sent = (step_.mean or step_).sent_bytes["all_reduce"]
        totals = [total + step_.stands_for * amount for total, amount in zip(totals, sent, strict=True)]
        missing = [less * (rank == 2 and step_.step >= 40) for rank in range(ranks)]
        with_totals.append(changed(step_, total_sent_bytes=tuple(t - m for t, m in zip(totals, missing, strict=True))))
    return replace(snapshot(*(rank_state(rank, **changes) for rank in range(ranks))), steps=tuple(with_totals))


def steps(uneven=None, usual=USUAL):
    """Return 64 steps; `uneven` has the bytes of those that differ from the usual ones."""
    return [step(number, (uneven or {}).get(number, usual)) for number in range(1, 65)]


SKIPS = {40: (1000, 0, 1000, 1000)}
MEAN = step(32, (1000, 937.5, 1000, 1000))  # of sixteen steps, one of them without collectives of rank 1
SAMPLED = [step(16 * n, stands_for=16, mean=MEAN if n == 2 else step(16 * n)) for n in range(1, 30)]
# A rank without batches repeats the collectives of the others: torch's Join calls this shadowing. This is the mean of
# sixteen steps; in one of them, rank 1 has the all-reduces of 200 more steps.
SHADOWS = step(32, (1000, 13_500, 1000, 1000))
SHADOWED = [step(16 * n, stands_for=16, mean=SHADOWS if n == 2 else step(16 * n)) for n in range(1, 30)]
TWO = (1000, 1000)

OUT_OF_STEP = {
    "skipped": (job(steps(SKIPS)), 1, "1 step less, at about step 40"),
    "entered twice, without update": (job(steps({40: (1000, 1000, 2000, 1000)})), 2, "1 step more, at about step 40"),
    "skipped between two samples": (job(SAMPLED), 1, "1 step less"),
    "in no mean of samples": (job(steps(), less=1000), 2, "1 step less, at about step 40"),
    "entered three times, without updates": (job(steps({40: (1000, 1000, 3000, 1000)})), 2, "2 steps more"),
    "of two, one skipped": (job(steps({40: (1000, 0)}, TWO)), 1, "1 step less"),
    "of two, the other skipped": (job(steps({40: (0, 1000)}, TWO)), 0, "1 step less"),
    "of two, one entered twice": (job(steps({40: (2000, 1000)}, TWO)), 0, "1 step more"),
}


@pytest.mark.parametrize(("scene", "culprit", "text"), OUT_OF_STEP.values(), ids=OUT_OF_STEP)
def test_rank_whose_collectives_are_shifted_is_the_culprit(scene, culprit, text):
    (finding,) = STALL.detect(scene)
    assert (finding.cause, finding.severity, finding.ranks) == ("sequence_lag", "warning", (culprit,))
    assert text in finding.summary
    assert not finding.is_stall


UNKNOWN = [changed(each, total_sent_bytes=(None,) * 4) for each in job(steps(SKIPS)).steps]

QUIET = {
    "a rank has lost the bytes of a collective": job(steps(SKIPS), dropped_records=1),
    "an older agent reports no totals": replace(job(steps(SKIPS)), steps=tuple(UNKNOWN)),
    "all do the same": job(steps()),
    "the two stages of a pipeline send different bytes in each step": job(steps(usual=(1500, 500))),
    "gradient accumulation": job(steps(dict.fromkeys(range(2, 65, 2), (0,) * 4))),
    "a stage sends less": job(steps(usual=(1000, 1000, 1000, 500))),
    "a rank is in no group": job(steps(usual=(1000, 1000, 1000, 0))),
    "some reduce a metric now and then": job(steps(dict.fromkeys((20, 40, 60), (1008, 1008, 1008, 1000)))),
    "the shift has not lasted": job(steps({5: (1000, 0, 1000, 1000)})[:10]),
    "the job has finished": job(steps(SKIPS), activity="done"),
    "both of two skip a step": job(steps({40: (0, 0)}, TWO)),
    "of two, one has fewer batches and shadows the other": job(steps({40: (1000, 201_000)}, TWO)),
    "of four, one has fewer batches and shadows the others": job(steps({40: (1000, 201_000, 1000, 1000)})),
    "of four, one has more batches and the others shadow it": job(steps({40: (1000, *(201_000,) * 3)})),
    "between two samples, one shadows the others": job(SHADOWED),
}


@pytest.mark.parametrize("scene", QUIET.values(), ids=QUIET)
def test_stall_is_quiet_about_ranks_that_differ_by_design(scene):
    assert STALL.detect(scene) == ()


def test_shift_lasts_until_its_launch_has_ended_or_the_rank_has_made_up_for_it():
    (shift,) = STALL.detect(job(steps(SKIPS)))
    later = [step(number) for number in range(41, 105)]
    assert shift.step == 40
    assert STALL.can_resolve(job([step(40), *later]), shift), "its step is there and shows no shift"
    assert not STALL.can_resolve(job(later), shift)
    assert STALL.can_resolve(job(later, activity="done"), shift)
    assert STALL.can_resolve(job(later), replace(shift, onset=NOW - 3600)), "a newer launch has taken its place"
    assert STALL.can_resolve(job(steps({**SKIPS, 41: (1000, 2000, 1000, 1000)})), shift)
