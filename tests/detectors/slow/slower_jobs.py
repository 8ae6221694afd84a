"""Every case of a job that is slower than it was, than recorded, or than its input allows, and builders of such jobs.

These are the rows of the detectors `slowdown`, `efficiency` and `input_bound`.
"""

from dataclasses import replace
from itertools import chain, repeat

from tests.build import NOW, dead, job_steps, rank_state, snapshot
from tests.detectors.slow.case import Case, Resolution
from tests.detectors.slow.slow_jobs import GIB, host
from tests.steps import changed
from zmon.job.baseline import BaselineLearner
from zmon.schema.curve import EfficiencySample

RANKS = tuple(rank_state(rank, device=f"GPU-{rank}") for rank in range(4))
ENDED = tuple(dead(rank) for rank in range(4))


def steps_for(seconds, data=0.010, forward=0.040, exchange=0.050, times=1.0, **changes):
    """Return this many seconds of steps of 100 ms, of four equal ranks."""
    step = times * (data + forward + exchange)
    rank = {"phases": {"data": times * data, "forward": times * forward}, "ops": {"all_to_all": times * exchange}}
    return job_steps(round(seconds / step), **{**rank, **changes})


HEALTHY = steps_for(60)
SLOW_EXCHANGE = steps_for(60, exchange=0.150)


def job(*parts, hardware=(), world_size=4, ranks=RANKS):
    """Return the snapshot of a job after these steps, with its step windows and baseline."""
    learning = BaselineLearner()
    for steps in parts:
        learning.add(steps)
    states = [replace(state, world_size=world_size) for state in ranks[:world_size]]
    return replace(
        snapshot(*states, hardware=hardware),
        steps=tuple(chain(*parts))[-64:],
        step_windows=tuple(learning.step_windows),
        baseline=learning.baseline,
    )


def slower(hardware=(), ranks=RANKS, **changes):
    """Return a job with a minute of healthy steps, and a minute of changed ones."""
    return job(HEALTHY, steps_for(60, **changes), hardware=hardware, ranks=ranks)


def slow_by_turns(number, seconds):
    """Return a job whose ranks wait for their data in turn, for this long."""
    quick = {"phases": {"data": 0.010, "forward": 0.040}, "ops": {"all_to_all": 0.050 + seconds}}
    slow = {"phases": {"data": 0.010 + seconds, "forward": 0.040}, "ops": {"all_to_all": 0.050}}
    turns = [job_steps(1, *(slow if rank == step % 4 else quick for rank in range(4))) for step in range(number)]
    return job(HEALTHY, list(chain(*turns)))


def unwatched():
    """Return a job whose agent was away for a minute, and whose host is busy while the agent starts."""
    first, *others = steps_for(4, times=2.0)
    return job(HEALTHY, [replace(first, stands_for=300), *others])


def slow_rank_of_slower(lookups=None):
    """Return a job that has become slower because rank 2 computes longer."""
    quick = {"phases": {"forward": 0.050}, "ops": {"all_to_all": 0.150}}
    slow = {"phases": {"forward": 0.150}, "ops": {"all_to_all": 0.050}}
    steps = job_steps(300, quick, quick, slow, quick)
    return job(HEALTHY, [changed(step, lookups=lookups) for step in steps] if lookups else steps)


def of_length(tokens, **changes):
    """Return the steps of a minute with as many samples as ever, which have this many tokens together."""
    return [changed(step, tokens=(tokens,) * 4) for step in steps_for(60, **changes)]


def longer(tokens, times=2.0):
    """Return a job that declares its tokens; a minute ago its samples became longer, and its steps too."""
    return job(of_length(512), of_length(tokens, times=times))


def with_other_batches(seconds_and_samples):
    """Return a job whose ranks have had this number of samples per step for these seconds, and need twice the time."""
    seconds, samples = seconds_and_samples
    return job(HEALTHY, steps_for(seconds, times=2.0, samples=samples))


SHORT_OF_MEMORY = host("node-a", pressure={"memory": 12.0})
SWAPPING = host("node-a", swapped=GIB)
WELL = host("node-a", pressure={"memory": 3.0}, swapped=1000)
BUSY = host("node-a", pressure={"cpu": 30.0})
SLOWDOWN = (
    Case("collectives take longer", lambda: slower(exchange=0.150), "network", lost=0.5,
         says=("a step takes 2.00 × the baseline (threshold 1.3 ×): 200.0 ms",
               "the exposed time in collectives grew most, by 100.0 ms")),
    Case("all ranks wait longer for data", lambda: slower(data=0.100), "input",
         says=("the wait for data grew most, by 90.0 ms",)),
    Case("ranks wait longer for data in turn", lambda: slow_by_turns(300, 0.100), "input"),
    Case("ranks wait longer for data in turn, and most of the recent steps were not slow yet",
         lambda: slow_by_turns(31, 1.100), "input"),
    Case("ranks compute longer on a host that swaps or waits for memory", lambda window: slower([window], forward=.14),
         "memory", says=("node-a is short of memory",), over=(SHORT_OF_MEMORY, SWAPPING)),
    Case("ranks wait longer for data on a host that waits for memory",
         lambda: slower([SHORT_OF_MEMORY], data=0.110), "memory", says=("node-a is short of memory",)),
    Case("ranks compute longer on hosts without much pressure", lambda hosts: slower(hosts, forward=0.140), "unknown",
         says=("the ranks' self time grew most",), over=([], [host("node-a")], [WELL])),
    Case("collectives take longer, and processes wait for a core",
         lambda: slower([BUSY], exchange=0.150), "unknown",
         says=("processes wait for a core on node-a",)),
    Case("collectives take longer, and ranks compute longer", lambda: slower(forward=0.060, exchange=0.150), "unknown"),
    Case("inputs become longer, and the job does not declare its tokens", lambda: slower(forward=0.140), "unknown",
         says=("Longer inputs, as in a curriculum, look the same", "zmon.work(tokens=…)")),
    Case("steps with 25 % more tokens take twice as long", lambda: longer(640), "unknown", lost=0.375,
         says=("a step takes 1.60 × the baseline for 1.25 × the work (threshold 1.3 ×): 200.0 ms against 125.0 ms",),
         hides="Longer inputs"),
    Case("steps with as many tokens take twice as long", lambda: longer(512), "unknown", lost=0.5,
         says=("a step takes 2.00 × the baseline (threshold 1.3 ×)",), hides="Longer inputs"),
    Case("steps with half of the tokens take twice as long", lambda: longer(256), "unknown", lost=0.5),
    Case("inputs become longer, and the job declares its tokens", lambda to: longer(*to),
         over=((1024, 2.0), (1280, 2.26), (1280, 3.0))),
    Case("inputs become shorter, and longer again later", lambda: job(of_length(1024, times=2.0), of_length(512),
         of_length(1024, times=2.0))),
    Case("a job keeps its speed", lambda: job(HEALTHY, steps_for(120))),
    Case("steps are 20 % longer", lambda: job(HEALTHY, steps_for(120, times=1.2))),
    Case("steps are twice as long for 25 s or less", lambda seconds: job(HEALTHY, steps_for(seconds, times=2.0)),
         over=(2.0, 10.0, 25.0)),
    Case("no agent has seen the steps of a minute", unwatched),
    Case("a job pauses once", lambda pause: job(HEALTHY, job_steps(1, phases={"forward": pause}), steps_for(20)),
         over=(1.0, 40.0)),
    Case("every tenth step writes a log",
         lambda: job(HEALTHY, list(chain(*repeat([*steps_for(0.9), *steps_for(0.5, forward=0.440)], 60))))),
    Case("the batch size changes", with_other_batches, over=((10, 64), (120, 64), (10, 16), (120, 16))),
    Case("a job warms up", lambda parts: job(*(steps_for(s, times=times) for s, times in parts)),
         over=([(5, 3.0)], [(15, 3.0)], [(5, 3.0), (60, 1.0)], [(15, 3.0), (60, 1.0)])),
    Case("a job has restarted with half of its ranks", lambda: job(steps_for(120, times=2.0), world_size=2)),
    Case("a job has recovered 2 s or 10 s ago", lambda seconds: job(HEALTHY, SLOW_EXCHANGE, steps_for(seconds)),
         over=(2, 10)),
    Case("a slower job has ended", lambda: slower(exchange=0.150, ranks=ENDED)),
)  # fmt: skip

# -- compared with the efficiency that was recorded ----------------------------------------------------------

SAMPLE_SECONDS = 30.0  # time between two samples


def with_efficiency(*parts, recorded=0.95, ranks=RANKS):
    """Return a job from pairs of minutes and efficiency; None means that it did not train, or nothing was recorded."""
    ratios = [ratio for minutes, ratio in parts for _ in range(round(minutes * 60 / SAMPLE_SECONDS))]
    first = NOW - SAMPLE_SECONDS * (len(ratios) - 1)
    samples = [
        EfficiencySample(first + SAMPLE_SECONDS * n, r, recorded, "weak", "ranker") for n, r in enumerate(ratios) if r
    ]
    return replace(snapshot(*ranks), efficiency=tuple(samples))


EFFICIENCY = (
    Case("a job has reached 84 % of the recorded efficiency for 11 min", lambda: with_efficiency((11, 0.8)),
         "below_baseline", lost=1 - 0.8 / 0.95,
         says=("has reached 84% of the efficiency recorded for ranker at this size (threshold 90%) for 10 min",
               "efficiency is 80.0%, and 95.0% was recorded (weak scaling)")),
    Case("a job has been below 90 % of the recorded efficiency for 16 min, after 20 good minutes",
         lambda: with_efficiency((20, 0.95), (16, 0.8)), "below_baseline"),
    Case("a job has been below 90 % of the recorded efficiency for 14 min, after 20 good minutes",
         lambda: with_efficiency((20, 0.95), (14, 0.8))),
    Case("a job has been below 90 % of the recorded efficiency for 12 min, around an evaluation",
         lambda: with_efficiency((6, 0.8), (3, None), (6, 0.8)), "below_baseline"),
    Case("a job is near the recorded efficiency", lambda ratio: with_efficiency((40, ratio)), over=(0.95, 0.9)),
    Case("a job reaches 50 %, and 52 % was recorded", lambda: with_efficiency((40, 0.5), recorded=0.52)),
    Case("a job is less than 10 min old", lambda minutes: with_efficiency((minutes, 0.3)), over=(1, 5, 9.5)),
    Case("a job has had a cold start", lambda after: with_efficiency((2, 0.3), (after, 0.95)), over=(20, 9)),
    Case("nothing was recorded for a job", lambda: snapshot(*RANKS)),
    Case("the efficiency is low for 4 min or less", lambda parts: with_efficiency((20, 0.95), *parts),
         over=([(1, 0.2)], [(4, 0.2)], [(1, 0.2), (12, 0.95)], [(4, 0.2), (12, 0.95)])),
    Case("the efficiency was low before a long gap", lambda: with_efficiency((15, 0.8), (11, None), (3, 0.8))),
    Case("a job with low efficiency has ended", lambda: with_efficiency((20, 0.8), ranks=ENDED)),
)  # fmt: skip

# -- limited by its input ------------------------------------------------------------------------------------


def loading(data, number=700, first=1, step=0.100):
    """Return steps of ranks that wait for their data for this long in each of them."""
    rest = (step - data) / 2
    return job_steps(number, first=first, phases={"data": data, "forward": rest}, ops={"all_to_all": rest})


def one_slow_loader():
    """Return a job in which rank 1 waits for its data, and the others wait for rank 1."""
    slow = {"phases": {"data": 0.060, "forward": 0.02}, "ops": {"all_to_all": 0.02}}
    quick = {"phases": {"data": 0.001, "forward": 0.02}, "ops": {"all_to_all": 0.079}}
    return job(job_steps(700, quick, slow, quick, quick))


INPUT_BOUND = (
    Case("all ranks wait for data for 40 % of their time", lambda: job(loading(0.040)), "input_bound", severity="info",
         says=("wait for data for 40% of their time (threshold 30%): 40.0 ms of a step of 100.0 ms", "num_workers")),
    Case("all ranks wait for data for 10 % of their time", lambda: job(loading(0.010))),
    Case("one rank waits for data", one_slow_loader),
    Case("caches and queues fill for 50 s or less", lambda number: job(loading(0.040, number)), over=(5, 100, 500)),
    Case("the loaders have recovered", lambda: job(loading(0.040), loading(0.010, first=701))),
    Case("a job that waited for data has ended", lambda: job(loading(0.040), ranks=ENDED)),
)  # fmt: skip

# -- how findings end ----------------------------------------------------------------------------------------


def slower_exchange():
    """Return a job that has become slower because its collectives take 100 ms longer."""
    return slower(exchange=0.150)


def slow_from_start(**changes):
    """Return a job of which a restarted hub has seen slow steps only."""
    return job(steps_for(60, exchange=0.150), **changes)


def low_efficiency(*after):
    """Return a job after 20 min of low efficiency, and then these pairs of minutes and efficiency."""
    return with_efficiency((20, 0.8), *after)


SLOWDOWN_ENDS = (
    Resolution("a baseline is known", slower_exchange, lambda: job(HEALTHY), True),
    Resolution("no baseline is known", slower_exchange, lambda: job(steps_for(10, exchange=0.150)), False),
    Resolution("a restarted hub has learned its baseline from the slow steps", slower_exchange, slow_from_start, False),
    Resolution("a restarted hub has learned the baseline from slow steps, and knows only some ranks", slower_exchange,
               lambda: replace(slow_from_start(), ranks=slow_from_start().ranks[:2], missing=(2, 3)), False),
    Resolution("the batch size has changed", slower_exchange, lambda: job(steps_for(60, exchange=0.150, samples=64)),
               True),
    Resolution("the job has fewer ranks", slower_exchange, lambda: slow_from_start(world_size=2), True),
    Resolution("a new launch is slow from its first step", slower_exchange,
               lambda: slow_from_start(ranks=tuple(replace(r, run_uid=f"again-{r.rank}") for r in RANKS)), True),
)  # fmt: skip
EFFICIENCY_ENDS = (
    Resolution("the efficiency is as recorded for 14 min or less", low_efficiency,
               lambda minutes: low_efficiency((minutes, 0.95)), False, over=(8, 14)),
    Resolution("the efficiency is as recorded for 16 min", low_efficiency, lambda: low_efficiency((16, 0.95)), True),
    Resolution("a restarted hub has seen no efficiency, or a good one for 5 min", low_efficiency,
               lambda parts: with_efficiency(*parts), False, over=((), [(5, 0.95)])),
    Resolution("a restarted hub has seen a good efficiency for 11 min", low_efficiency,
               lambda: with_efficiency((11, 0.95)), True),
    Resolution("the job ends", low_efficiency, lambda: snapshot(*ENDED), True),
)  # fmt: skip
INPUT_BOUND_ENDS = (
    Resolution("a restarted hub knows few steps", lambda: job(loading(0.040)), lambda: job(loading(0.040, 100)), False),
    Resolution("the loaders keep up", lambda: job(loading(0.040)), lambda: job(loading(0.010)), True),
)
