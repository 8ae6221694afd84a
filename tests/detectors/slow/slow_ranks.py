"""Every case of a rank that holds the others back: rows of the detector `straggler`."""

import random
from dataclasses import replace
from functools import cache

from tests.build import waiting
from tests.detectors.slow.case import Case, Resolution
from tests.detectors.slow.slow_hosts import BOUND, pressed
from tests.detectors.slow.slow_jobs import (
    GOOD,
    HOSTS,
    apart,
    healthy_steps,
    job,
    later_steps,
    rank,
    slow_rank,
    steps,
    with_slow_rank,
)
from tests.detectors.slow.uneven_jobs import SECOND, pipeline, with_longer
from tests.steps import changed


def slow_in_samples(sampled_forward, mean_forward):
    """Return a job whose rank 2 has these forward times: in the sampled steps, and on average over all steps."""
    samples, means = (later_steps(20, *with_slow_rank(2, forward=f)) for f in (sampled_forward, mean_forward))
    return job(healthy_steps(), [replace(step, mean=mean) for step, mean in zip(samples, means, strict=True)])


def noisy(seed, data=0.0):
    """Return steps of ranks whose self time varies by a third; rank 2 waits longer for its data, by `data` seconds."""
    draw = random.Random(seed)
    for step in later_steps(20):
        waits = tuple(0.010 * draw.uniform(0.9, 1.1) + data * (number == 2) for number in range(4))
        totals = tuple(wait + 0.060 * draw.lognormvariate(0, 0.3) for wait in waits)
        forward = tuple(total - wait for total, wait in zip(totals, waits, strict=True))
        phases = {"data": waits, "forward": forward}
        yield changed(step, self_seconds=totals, phases=phases, seconds=max(totals) + 0.030)


def with_noise(seed):
    """Return a job of noisy steps, in the last twenty of which rank 2 waits longer for its data."""
    return job([step for offset in (100, 200) for step in noisy(offset + seed)], noisy(seed, data=0.035))


def step_by_step(ranks_of):
    """Return a job of 64 sampled steps; `ranks_of(number)` returns the ranks of a step."""
    return job([step for number in range(64) for step in later_steps(1, *ranks_of(number))])


# The slow rank of each of the last 32 sampled steps, drawn at random.
SLOW_RANKS = [None] * 32 + [int(digit) for digit in "33210321122120110012122211131131"]
LONG_SEQUENCES = [rank(forward=0.090 if number == 1 else 0.060) for number in range(4)]


def longer_by_turns(number):
    """Return the ranks of a step: rank 1 always has long sequences, and another rank has longer ones."""
    return [rank(forward=0.095) if r == (0, 2, 3)[number % 3] else LONG_SEQUENCES[r] for r in range(4)]


def slow_disk(offload=0.045, hardware=()):
    """Return a job in which all ranks wait a little for rows on their disks, and rank 2 longer in the last steps."""
    ranks = [{**rank(), "phases": {"data": 0.010, "forward": 0.055, "offload": 0.005}} for _ in range(4)]
    slow = {**ranks[2], "phases": {**ranks[2]["phases"], "offload": offload}}
    return job(steps(64, *ranks), later_steps(20, *ranks[:2], slow, ranks[3]), hardware=hardware)


@cache
def moving(size, seed):
    """Return sampled steps, in each of which a random rank is late.

    The seeds of `MOMENTS` are some with which one rank is late by chance in most of the last steps, at some moments.
    """
    draw = random.Random(seed)
    late = [later_steps(1, *with_slow_rank(draw.randrange(size), size, data=0.110)) for _ in range(300)]
    return [step for (step,) in late]


def at_moment(moment):
    """Return a job with the 64 steps of `moving` that end at this moment: size, seed, number of the last step."""
    size, seed, end = moment
    return job(moving(size, seed)[end - 64 : end], size=size)


MOMENTS = [(size, seed, end) for size, seed in ((2, 5), (4, 0), (4, 3), (8, 5)) for end in range(64, 300, 4)]


def more_work(unit, work=2000, first=None):
    """Return a job whose rank 2 takes twice as long in each step. It reports `work` in this unit, the others 1000.

    `first` is what the ranks report in the first step, if it differs.
    """
    usual = (1000, 1000, work, 1000)
    bare = steps(64, *(rank(forward=0.060 * times) for times in (1, 1, 2, 1)), stands_for=2)
    rows = [first or usual, *[usual] * 63]
    return job([replace(s, columns={**s.columns, unit: row}) for s, row in zip(bare, rows, strict=True)])


LONG = [rank(forward=1.2)] * 4  # ranks whose steps take more than a second
# Each step of `later_steps`, and of `slow_rank`, is a sample that stands for two steps.
CASES = (
    Case("a rank of 2, 4 or 8 computes longer", lambda size: slow_rank(1, size, forward=0.095), "compute_straggler",
         (1,), says=("rank 1 on node-", "% more than the median of the others (threshold 20%)", "mostly in forward",
               "for 36 steps", "; if it were as fast as the others", "kubectl cordon node-"),
         lost=0.25, over=(2, 4, 8)),
    Case("rank 0 of 2, 4 or 8 computes longer", lambda size: slow_rank(0, size, forward=0.095), "compute_straggler",
         (0,), over=(2, 4, 8)),
    Case("a rank waits longer for its data", lambda: slow_rank(data=0.060), "input_straggler", (2,),
         says=("mostly in data",)),
    Case("a rank waits longer for its data, and all ranks compute unevenly", with_noise, "input_straggler", (2,),
         over=range(8)),
    Case("a rank waits longer for rows on its disk", slow_disk, "offload_straggler", (2,),
         says=("mostly in offload", "iostat -x 2 3")),
    Case("a rank waits longer for rows on its disk, and its host is short of I/O",
         lambda: slow_disk(hardware=pressed({"node-c": 30.0}, "io")), "offload_straggler", (2,)),
    Case("a rank is slow in several phases", lambda: slow_rank(forward=0.085, data=0.035), "unknown", (2,)),
    Case("a rank computes longer for 32 steps", lambda: slow_rank(1, number=16, forward=.1), "compute_straggler", (1,)),
    Case("a rank computes longer for 26 steps only", lambda: slow_rank(1, number=13, forward=0.100)),
    Case("a rank computes longer for twelve steps of 2 s",
         lambda: job(steps(48, *LONG), steps(12, *LONG[:2], rank(forward=2.0), LONG[3], first=49)), "compute_straggler",
         (2,)),
    Case("a rank computes longer from the first step on",
         lambda: job(steps(36, *with_slow_rank(3, forward=0.085), stands_for=2)), "compute_straggler", (3,)),
    Case("two of eight ranks compute longer",
         lambda: job(healthy_steps(size=8), later_steps(20, *(rank(forward=0.100 if r in (2, 3) else 0.060)
                                                              for r in range(8))), size=8),
         "compute_straggler", (2, 3),
         says=("rank 3 on node-a hold the others back", "; if they were as fast as the others")),
    Case("a rank computes longer in steps that are not sampled", lambda: slow_in_samples(0.060, 0.100),
         "compute_straggler", (2,)),
    Case("a rank computes longer in sampled steps only", lambda: slow_in_samples(0.100, 0.060)),
    Case("a rank waits longer for its data, and computes for less time by the same amount",
         lambda: slow_rank(data=0.040, forward=0.030)),
    Case("all ranks are equally fast", lambda: job(healthy_steps(64))),
    Case("a rank is 6 % slower", lambda: job(steps(64, *with_slow_rank(1, forward=0.0635, data=0.0105), stands_for=2))),
    Case("a rank is up to 23 % slower, and less than 15 % of the step is lost",
         lambda forward: slow_rank(1, forward=forward), over=(0.066, 0.075, 0.076)),
    Case("a rank pauses for the time of ten steps",
         lambda: job(healthy_steps(), later_steps(1, *with_slow_rank(1, forward=1.0)), later_steps(15))),
    Case("a core of a rank is contended for 2 s, up to 3 s ago",
         lambda after: job(healthy_steps(), later_steps(10, *with_slow_rank(2, forward=0.120)), later_steps(after),
                           hardware=BOUND), over=range(16)),
    Case("the ranks are slow in turn", lambda: step_by_step(lambda number: with_slow_rank(number % 4, forward=0.120))),
    Case("a random rank has become slow in each step, after 64 steps without a slow rank",
         lambda: step_by_step(lambda number: with_slow_rank(SLOW_RANKS[number], forward=0.160))),
    Case("a random rank of 2, 4 or 8 is slow in each step, at any moment of 47 s", at_moment, over=MOMENTS),
    Case("a rank computes longer, and in each step another rank is equally late: its repair would gain nothing",
         lambda: step_by_step(longer_by_turns)),
    Case("a rank takes twice as long for twice as many tokens, lookups or samples", more_work,
         over=("tokens", "lookups", "samples")),
    Case("a rank takes twice as long for twice as many lookups, and the first step reports none",
         lambda: more_work("lookups", first=(None,) * 4)),
    Case("a rank takes twice as long for 5 % more lookups", lambda: more_work("lookups", work=1050),
         "compute_straggler", (2,)),
    Case("half of the ranks compute longer, as stages of a pipeline do",
         lambda: job(steps(64, *[rank()] * 2, *[rank(forward=0.100)] * 2, stands_for=2))),
    Case("few steps are known", lambda number: job(steps(number, *with_slow_rank(1, forward=0.120), stands_for=2)),
         over=(0, 20)),
    Case("a rank computed longer in a job that has finished",
         lambda: job(later_steps(40, *with_slow_rank(1, forward=0.100)), activity="done")),
    # A rank of a pipeline is compared with its stage.
    Case("a rank of a longer stage computes longer than its stage",
         lambda: pipeline((40, with_longer(1.6)), (40, with_longer(1.6, slow_rank=5))), "compute_straggler", (5,),
         says=("of self time per step against 29",)),
    Case("a rank of a shorter stage computes longer than its stage, and does not delay the step",
         lambda: pipeline((40, with_longer(3.0)), (40, with_longer(3.0, slow_rank=1)))),
    Case("a rank computes longer, and there are no transfers between the groups of ranks",
         lambda groups: pipeline((40, with_longer(1.0)), (40, with_longer(1.0, slow_rank=5)), groups=groups, between=0),
         "compute_straggler", (5,), over=((range(8),), (range(4), SECOND))),
    Case("all ranks wait as long for rows on their disks", lambda: slow_disk(offload=0.005)),
    Case("a rank computes longer, and the others wait in collectives",
         lambda: job(healthy_steps(), later_steps(20, *(rank(forward=0.120) if r == 1 else rank(exchange=0.090)
                                                        for r in range(4))), baseline=GOOD),
         "compute_straggler", (1,)),
    Case("a rank computes twice as long, and no rank enters collectives", lambda: apart(forward=0.130)),
)  # fmt: skip

# -- how findings end ----------------------------------------------------------------------------------------


def slowed():
    """Return a job in which rank 1 holds the others back."""
    return slow_rank(1, forward=0.100)


def stalled():
    """Return the job while all its ranks wait in a collective."""
    states = tuple(waiting(number, device="cpu", host=HOSTS[number]) for number in range(4))
    return replace(job(healthy_steps()), ranks=states)


def without(number, job, **changes):
    """Return a job that one rank has left."""
    return replace(job, ranks=tuple(state for state in job.ranks if state.rank != number), **changes)


def unwatched(number):
    """Return a healthy job in which the agent of one rank is silent."""
    healthy = job(healthy_steps())
    return without(number, healthy, unwatched=tuple(state for state in healthy.ranks if state.rank == number))


def quick_again(*forward_times):
    """Return a job whose slow rank 1 then takes these times in forward, each of them for two steps."""
    quick = [later_steps(1, *with_slow_rank(1, forward=seconds)) for seconds in forward_times]
    return job(later_steps(40, *with_slow_rank(1, forward=0.100)), *quick)


RESOLUTIONS = (
    Resolution("the rank is up to 9 % slower than the others", slowed, lambda forward: slow_rank(1, forward=forward),
               True, over=(0.060, 0.066)),
    Resolution("the rank is 21 or 23 % slower, which costs a little less than 15 % of the step", slowed,
               lambda forward: slow_rank(1, forward=forward), False, over=(0.075, 0.076)),
    Resolution("the rank is as fast as the others for 12 steps", slowed, lambda: quick_again(*[0.060] * 6), False),
    Resolution("the rank is as fast as the others for 14 steps", slowed, lambda: quick_again(*[0.060] * 7), True),
    Resolution("the rank is as fast as the others on average, with much jitter", slowed,
               lambda: quick_again(0.070, 0.046, 0.069, 0.046, 0.070, 0.046, 0.055), True),
    Resolution("the job stalls", slowed, stalled, False),
    Resolution("few steps are known", slowed, lambda: job(steps(4, stands_for=2)), False),
    Resolution("the agent of the rank, or of another one, is silent", slowed, unwatched, False, over=(0, 1, 2)),
    Resolution("the rank has left the job", slowed, lambda: without(1, slowed(), missing=(1,)), True),
    Resolution("all other ranks have left the job", slowed,
               lambda: replace(slowed(), world_size=1, ranks=slowed().ranks[:1]), True),
    Resolution("the job finishes", slowed,
               lambda: job(later_steps(20, *with_slow_rank(1, forward=0.100)), activity="done"), True),
)  # fmt: skip
