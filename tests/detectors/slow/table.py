"""Every case of a job that moves and loses time: what it does, and what is due, or that the detector is quiet.

docs/slowness.md is generated from these sections, and `test_table.py` judges each of their rows.
"""

from dataclasses import replace

from tests.build import dead, rank_state, snapshot, waiting
from tests.detectors.slow import slow_jobs, slow_ranks, slower_jobs, uneven_jobs, uneven_work
from tests.detectors.slow.case import Case, Resolution, Section
from tests.detectors.slow.slow_jobs import (
    GOOD,
    HOSTS,
    cards,
    connected,
    healthy_steps,
    hot,
    later_steps,
    rank,
    slow_exchange,
    slow_rank,
    steps,
    with_slow_rank,
)
from tests.detectors.slow.slower_jobs import HEALTHY, OVER, RANKS, loading, slow_rank_of_slower, slower, steps_for
from tests.detectors.slow.uneven_jobs import (
    SKEWED_STEPS,
    even,
    job_of,
    late_in,
    pipeline,
    slow_computing,
    slow_loader,
    with_longer,
)
from zmon.detectors.slow import EfficiencyLow, Imbalance, InputBound, Slowdown, Straggler


def loaders_and_slow_rank(draw):
    """Return a step in which rank 3 computes longer, as in all steps, and another rank waits for its data."""
    row = late_in("data", 0.150, draw)
    return [{**phases, "forward": phases["forward"] + 0.4 * (rank == 3)} for rank, phases in enumerate(row)]


def with_dead_rank():
    return uneven_jobs.job((90, slow_loader), ranks=(*map(rank_state, range(3)), dead(3)))


TOGETHER = (
    Case("a job becomes slower because a rank computes longer", slow_rank_of_slower, "compute_straggler", (2,)),
    Case("a job becomes slower because a rank has three times the lookups",
         lambda: slow_rank_of_slower(lookups=(100, 100, 300, 100)), "lookup_skew", (2,)),
    Case("the ranks of a stage compute 60 % longer", lambda: pipeline((60, with_longer(1.6))), "stage_imbalance"),
    Case("the only rank of a stage computes 60 % longer", lambda: pipeline((60, with_longer(1.6, (7,))), groups=()),
         "stage_imbalance"),
    Case("a stage is 10 % longer", lambda: pipeline((60, with_longer(1.1)))),
    Case("another rank waits for its data in each step", lambda: uneven_jobs.job((90, slow_loader)), "input_jitter"),
    Case("another rank waits for its data in each step, and one rank always computes longer",
         lambda: uneven_jobs.job((60, even), (60, loaders_and_slow_rank)), "compute_straggler", (3,)),
    Case("another rank waits for its data in each step, and a rank has died", with_dead_rank, "rank_exited", (3,),
         "critical"),
)  # fmt: skip
SECTIONS = (
    Section("A rank or a link holds the others back", "A rank is compared with the others of its role, step by step. "
            "Small, short or random differences are quiet.", Straggler(), slow_ranks.CASES),
    Section("Work is split unevenly", "One rank or stage always has more work, or another rank is late in each step. "
            "What costs little is quiet.", Imbalance(), uneven_work.CASES),
    Section("A job is slower than it was", "The steps of half a minute are compared with the job's baseline.",
            Slowdown(), slower_jobs.SLOWDOWN),
    Section("A job is slower than recorded", "The efficiency is compared with the one that was recorded for jobs of "
            "its name at its size.", EfficiencyLow(), slower_jobs.EFFICIENCY),
    Section("A job is limited by its input", "All ranks wait for data in each step. This is no fault.", InputBound(),
            slower_jobs.INPUT_BOUND),
    Section("Several detectors see the same fault", "The finding that remains is that of the detector that knows most "
            "about the fault.", None, TOGETHER),
)  # fmt: skip


# -- how findings end ----------------------------------------------------------------------------------------


def slowed():
    return slow_rank(1, own=0.100)


def stalled():
    states = tuple(waiting(number, device="cpu", host=HOSTS[number]) for number in range(4))
    return replace(slow_jobs.job(healthy_steps()), ranks=states)


def without(number, job, **changes):
    """Return a job that one rank has left."""
    return replace(job, ranks=tuple(state for state in job.ranks if state.rank != number), **changes)


def unwatched(number):
    job = slow_jobs.job(healthy_steps())
    return without(number, job, unwatched=tuple(state for state in job.ranks if state.rank == number))


def quick_again(*own):
    quick = [later_steps(1, *with_slow_rank(1, own=seconds)) for seconds in own]
    return slow_jobs.job(later_steps(40, *with_slow_rank(1, own=0.100)), *quick)


def exchanging(hardware=()):
    """Return a job that exchanges for most of each step by design."""
    return slow_jobs.job(steps(40, *[rank(exchange=0.090)] * 4, stands_for=2), hardware=hardware)


def slower_exchange():
    return slower(exchange=0.150)


def slow_from_start(**changes):
    """Return a job of which a restarted hub has seen slow steps only."""
    return slower_jobs.job(steps_for(60, exchange=0.150), **changes)


def of_another_launch():
    return slow_from_start(ranks=tuple(replace(state, run_uid=f"again-{state.rank}") for state in RANKS))


def loading_unevenly():
    return uneven_jobs.job((90, slow_loader))


def losing_less():
    return uneven_jobs.job((90, slow_loader), (30, lambda draw: late_in("data", 0.030, draw)))


def low_efficiency(*after):
    return slower_jobs.with_efficiency((20, 0.8), *after)


STRAGGLER, IMBALANCE, SLOWDOWN, EFFICIENCY, INPUT_BOUND = (section.detector for section in SECTIONS[:5])
RESOLUTIONS = (
    Resolution("the rank is up to 8 % slower than the others", STRAGGLER, slowed,
               lambda own: slow_rank(1, own=own), True, over=(0.060, 0.066)),
    Resolution("the rank is 22 % slower: below the threshold, and not well below", STRAGGLER, slowed,
               lambda own: slow_rank(1, own=own), False, over=(0.075, 0.076)),
    Resolution("the rank is as fast as the others for 12 steps", STRAGGLER, slowed,
               lambda: quick_again(*[0.060] * 6), False),
    Resolution("the rank is as fast as the others for 14 steps", STRAGGLER, slowed,
               lambda: quick_again(*[0.060] * 7), True),
    Resolution("the rank is as fast as the others on average, with much jitter", STRAGGLER, slowed,
               lambda: quick_again(0.070, 0.046, 0.069, 0.046, 0.070, 0.046, 0.055), True),
    Resolution("the job stalls", STRAGGLER, slowed, stalled, False),
    Resolution("few steps are known", STRAGGLER, slowed, lambda: slow_jobs.job(steps(4, stands_for=2)), False),
    Resolution("the agent of the rank, or of another one, is silent", STRAGGLER, slowed, unwatched, False,
               over=(0, 1, 2)),
    Resolution("the rank has left the job", STRAGGLER, slowed, lambda: without(1, slowed(), missing=(1,)), True),
    Resolution("all other ranks have left the job", STRAGGLER, slowed,
               lambda: replace(slowed(), world_size=1, ranks=slowed().ranks[:1]), True),
    Resolution("the job finishes", STRAGGLER, slowed,
               lambda: slow_jobs.job(later_steps(20, *with_slow_rank(1, own=0.100)), activity="done"), True),
    Resolution("the exposed time has shrunk by half", STRAGGLER, lambda: slow_exchange(connected()),
               lambda: slow_exchange(exchange=0.060), False),
    Resolution("the exposed time is that of the baseline", STRAGGLER, lambda: slow_exchange(connected()),
               lambda: slow_jobs.job(healthy_steps(), baseline=GOOD), True),
    Resolution("the exposed time is still long, and the links are equally fast", STRAGGLER,
               lambda: slow_exchange(connected()), lambda: exchanging(connected(busy=0.1)), True),
    Resolution("the exposed time is still long, and a link is slow or the links are unknown", STRAGGLER,
               lambda: slow_exchange(connected()), exchanging, False, over=(connected(), ())),
    Resolution("the driver of the hot GPU does not answer", STRAGGLER,
               lambda: slow_jobs.job(healthy_steps(), hardware=hot(1, "sw_thermal")),
               lambda: slow_jobs.job(healthy_steps()), False),
    Resolution("the GPU has cooled down", STRAGGLER,
               lambda: slow_jobs.job(healthy_steps(), hardware=hot(1, "sw_thermal")),
               lambda: slow_jobs.job(healthy_steps(), hardware=cards((), (), (), ())), True),
    Resolution("few steps are known", IMBALANCE, lambda: job_of(SKEWED_STEPS), lambda: job_of(()), False),
    Resolution("enough steps are known", IMBALANCE, lambda: job_of(SKEWED_STEPS), lambda: job_of(SKEWED_STEPS), True),
    Resolution("the stage is still 15 % longer or more", IMBALANCE, lambda: pipeline((60, with_longer(1.6))),
               lambda factor: pipeline((60, with_longer(factor))), False, over=(1.6, 1.15)),
    Resolution("the stages are even", IMBALANCE, lambda: pipeline((60, with_longer(1.6))),
               lambda: pipeline((60, with_longer(1.0))), True),
    Resolution("the job has no stages any more", IMBALANCE, lambda: pipeline((60, with_longer(1.6))),
               lambda: pipeline((60, with_longer(1.0)), groups=(range(8),)), True),
    Resolution("the loaders keep up again", IMBALANCE, loading_unevenly,
               lambda: uneven_jobs.job((90, slow_loader), (30, even)), True),
    Resolution("the job loses as much as before", IMBALANCE, loading_unevenly, loading_unevenly, False),
    Resolution("the job still loses more than half of the threshold", IMBALANCE, loading_unevenly, losing_less, False),
    Resolution("the job loses less, and no steps are known", IMBALANCE, loading_unevenly,
               lambda: replace(losing_less(), steps=()), False),
    Resolution("the loss has another cause", IMBALANCE, loading_unevenly,
               lambda: uneven_jobs.job((90, slow_computing)), True),
    Resolution("a baseline is known", SLOWDOWN, slower_exchange, lambda: slower_jobs.job(HEALTHY), True),
    Resolution("no baseline is known", SLOWDOWN, slower_exchange,
               lambda: slower_jobs.job(steps_for(10, exchange=0.150)), False),
    Resolution("a restarted hub has learned its baseline from the slow steps", SLOWDOWN, slower_exchange,
               slow_from_start, False),
    Resolution("a restarted hub has learned it from the slow steps, and does not know all ranks yet", SLOWDOWN,
               slower_exchange,
               lambda: replace(slow_from_start(), ranks=slow_from_start().ranks[:2], missing=(2, 3)), False),
    Resolution("the batch size has changed", SLOWDOWN, slower_exchange,
               lambda: slower_jobs.job(steps_for(60, exchange=0.150, samples=64)), True),
    Resolution("the job has fewer ranks", SLOWDOWN, slower_exchange, lambda: slow_from_start(world_size=2), True),
    Resolution("a new launch is slow from its first step", SLOWDOWN, slower_exchange, of_another_launch, True),
    Resolution("the efficiency is as recorded for 14 min or less", EFFICIENCY, low_efficiency,
               lambda minutes: low_efficiency((minutes, 0.95)), False, over=(8, 14)),
    Resolution("the efficiency is as recorded for 16 min", EFFICIENCY, low_efficiency,
               lambda: low_efficiency((16, 0.95)), True),
    Resolution("a restarted hub has seen no efficiency, or a good one for 5 min", EFFICIENCY, low_efficiency,
               lambda parts: slower_jobs.with_efficiency(*parts), False, over=((), [(5, 0.95)])),
    Resolution("a restarted hub has seen a good efficiency for 11 min", EFFICIENCY, low_efficiency,
               lambda: slower_jobs.with_efficiency((11, 0.95)), True),
    Resolution("the job ends", EFFICIENCY, low_efficiency, lambda: snapshot(*OVER), True),
    Resolution("a restarted hub knows few steps", INPUT_BOUND, lambda: slower_jobs.job(loading(0.040)),
               lambda: slower_jobs.job(loading(0.040, 100)), False),
    Resolution("the loaders keep up", INPUT_BOUND, lambda: slower_jobs.job(loading(0.040)),
               lambda: slower_jobs.job(loading(0.010)), True),
)  # fmt: skip
