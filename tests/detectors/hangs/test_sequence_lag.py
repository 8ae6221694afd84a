"""Tests of a rank whose collectives are shifted by a step, and of ranks that differ by design."""

from dataclasses import replace

from tests.build import NOW, rank_state, snapshot
from tests.detectors.stalls import STALL
from tests.steps import aligned_step, changed

RANKS = 4


def step(number, sent=1000, stands_for=1, mean=None, **others):
    """Return a step in which each rank sends as many bytes in all-reduces, but for the ranks `r0` … `r3`."""
    column = tuple(others.get(f"r{rank}", sent) for rank in range(RANKS))
    zeros = (0.0,) * RANKS
    amounts = {"all_reduce": column}
    return aligned_step(number, stands_for, 0.02, 0, zeros, sent_bytes=amounts, received_bytes=amounts, mean=mean)


def job(steps, **changes):
    return replace(snapshot(*(rank_state(rank, **changes) for rank in range(RANKS))), steps=with_totals(steps))


def with_totals(steps):
    """Return the steps with the bytes that each rank has sent so far."""
    totals, counted = [10**9] * RANKS, []
    for each in steps:
        sent = (each.mean or each).sent_bytes["all_reduce"]
        totals = [total + each.stands_for * amount for total, amount in zip(totals, sent, strict=True)]
        counted.append(changed(each, total_sent_bytes=tuple(totals)))
    return tuple(counted)


def detect(steps):
    return next(iter(STALL.detect(job(steps))), None)


def steps(uneven=()):
    """Return 64 steps; `uneven` replaces some of them."""
    replaced = {each.step: each for each in uneven}
    return [replaced.get(number, step(number)) for number in range(1, 65)]


def test_rank_that_skipped_the_collectives_of_a_step_is_named():
    finding = detect(steps([step(40, r1=0)]))
    assert (finding.cause, finding.severity, finding.ranks) == ("sequence_lag", "warning", (1,))
    assert "1 step less, at about step 40" in finding.summary


def test_rank_that_entered_the_collectives_of_two_steps_in_one_is_named():
    """It did not update after the first of them."""
    finding = detect(steps([step(40, r2=2000)]))
    assert (finding.cause, finding.ranks) == ("sequence_lag", (2,))


def test_skipped_step_between_two_sampled_steps_is_noticed():
    mean = step(32, r1=937.5)  # the mean of sixteen steps, one of them without collectives
    sampled = [step(16 * n, stands_for=16, mean=mean if n == 2 else step(16 * n)) for n in range(1, 30)]
    assert detect(sampled).ranks == (1,)


def less(each, num_bytes):
    """Return the totals of a step with so many bytes less on rank 2."""
    return tuple(total - num_bytes * (rank == 2) for rank, total in enumerate(each.total_sent_bytes))


def test_skipped_step_is_noticed_if_no_mean_of_steps_contains_it():
    """An agent that changes the distance of its samples leaves steps between two means."""
    even = job(steps())
    sampled = [changed(each, total_sent_bytes=less(each, 1000 * (each.step >= 40))) for each in even.steps]
    finding = next(iter(STALL.detect(replace(even, steps=tuple(sampled)))))
    assert finding.ranks == (2,)
    assert "1 step less, at about step 40" in finding.summary


def test_stall_is_quiet_if_the_totals_are_unknown():
    """An older agent does not report them."""
    unknown = [changed(each, total_sent_bytes=(None,) * RANKS) for each in steps([step(40, r1=0)])]
    assert not list(STALL.detect(replace(job(steps()), steps=tuple(unknown))))


def test_stall_is_quiet_if_all_ranks_do_the_same():
    assert detect(steps()) is None
    assert detect(steps([step(n, sent=0) for n in range(2, 65, 2)])) is None  # gradient accumulation


def test_stall_is_quiet_if_a_rank_always_does_other_work():
    """A group, or a stage of a pipeline, that not all ranks are in."""
    assert detect([step(number, r3=500) for number in range(1, 65)]) is None
    assert detect([step(number, r3=0) for number in range(1, 65)]) is None


def test_stall_is_quiet_if_some_ranks_reduce_a_metric_now_and_then():
    assert detect(steps([step(n, r3=1000, sent=1008) for n in (20, 40, 60)])) is None


def test_stall_is_quiet_before_a_shift_has_lasted():
    assert detect([step(number, r1=0 if number == 5 else 1000) for number in range(1, 11)]) is None


def test_job_whose_ranks_are_a_step_off_is_not_stalled():
    assert not detect(steps([step(40, r1=0)])).is_stall


def test_job_that_has_finished_has_no_shift():
    """If the shift made the job end badly, another finding reports that end."""
    assert not list(STALL.detect(job(steps([step(40, r1=0)]), activity="done")))


def test_shift_lasts_until_its_launch_has_ended():
    shift, later = detect(steps([step(40, r1=0)])), [step(number) for number in range(41, 105)]
    assert shift.step == 40
    assert not STALL.can_resolve(job(later), shift)
    assert STALL.can_resolve(job(later, activity="done"), shift)
    assert STALL.can_resolve(job(later), replace(shift, onset=NOW - 3600)), "a newer launch has taken its place"


def test_shift_that_the_rank_has_made_up_for_resolves():
    shift = detect(steps([step(40, r1=0)]))
    assert STALL.can_resolve(job(steps([step(40, r1=0), step(41, r1=2000)])), shift)


def of_two(sent):
    """Return 64 steps of two ranks; `sent` has the bytes of single steps that differ from the usual 1,000."""
    columns = [sent.get(number, (1000, 1000)) for number in range(1, 65)]
    totals = [tuple(sum(column[rank] for column in columns[:number]) for rank in range(2)) for number in range(1, 65)]
    return tuple(
        aligned_step(
            number, 1, 0.02, 0, (0.0, 0.0), sent_bytes={"all_reduce": column}, received_bytes={"all_reduce": column},
            total_sent_bytes=total,
        )
        for number, (column, total) in enumerate(zip(columns, totals, strict=True), 1)
    )  # fmt: skip


def detect_of_two(sent):
    return next(iter(STALL.detect(replace(snapshot(rank_state(0), rank_state(1)), steps=of_two(sent)))), None)


def test_of_two_ranks_the_one_without_the_usual_bytes_is_named():
    assert detect_of_two({40: (1000, 0)}).ranks == (1,)
    assert detect_of_two({40: (0, 1000)}).ranks == (0,)
    assert detect_of_two({40: (2000, 1000)}).ranks == (0,)


def test_stall_is_quiet_if_both_of_two_ranks_skip_a_step():
    assert detect_of_two({40: (0, 0)}) is None
