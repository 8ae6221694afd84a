"""Every case of a rank, or the link of a host, that holds the others back: the rows of the detector `straggler`."""

import random
from dataclasses import replace
from functools import cache

from tests.build import waiting
from tests.detectors.slow.case import Case, Resolution
from tests.detectors.slow.slow_jobs import (
    GOOD,
    HOSTS,
    apart,
    cards,
    connected,
    delayed,
    healthy_steps,
    host,
    hot,
    job,
    later_steps,
    rank,
    slow_exchange,
    slow_rank,
    steps,
    with_slow_rank,
)
from tests.detectors.slow.uneven_jobs import SECOND, pipeline, with_longer
from tests.steps import changed
from zmon.schema.aligned_step import Baseline


def slow_in_samples(of_sample, of_mean):
    """Return a job whose rank 2 takes this long in the sampled steps, and this long on average over all steps."""
    samples, means = (later_steps(20, *with_slow_rank(2, forward=forward)) for forward in (of_sample, of_mean))
    return job(healthy_steps(), [replace(step, mean=mean) for step, mean in zip(samples, means, strict=True)])


def noisy(seed, data=0.0):
    """Return steps of ranks whose self time varies by a third; rank 2 waits longer for its data, by `data` seconds."""
    draw = random.Random(seed)
    for step in later_steps(20):
        late = tuple(0.010 * draw.uniform(0.9, 1.1) + data * (rank == 2) for rank in range(4))
        both = tuple(a + 0.060 * draw.lognormvariate(0, 0.3) for a in late)
        forward = tuple(a - b for a, b in zip(both, late, strict=True))
        yield changed(step, self_seconds=both, phases={"data": late, "forward": forward}, seconds=max(both) + 0.030)


def with_noise(seed):
    """Return a job of noisy steps, in the last twenty of which rank 2 waits longer for its data."""
    return job([step for offset in (100, 200) for step in noisy(offset + seed)], noisy(seed, data=0.035))


def in_turn(ranks, number=64):
    """Return a job whose steps are those of `ranks(number of the step)`."""
    return job([step for index in range(number) for step in later_steps(1, *ranks(index))])


LATELY = "33210321122120110012122211131131"  # the slow rank of each of the last 32 steps, drawn at random
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
    """Return steps in which a random rank is late: some rank is late in most of the last ones by chance."""
    draw = random.Random(seed)
    late = [later_steps(1, *with_slow_rank(draw.randrange(size), size, data=0.110)) for _ in range(300)]
    return [step for (step,) in late]


WINDOWS = [(size, seed, end) for size, seed in ((2, 5), (4, 0), (4, 3), (8, 5)) for end in range(64, 300, 4)]


def more_work(amount, work=2000, first=(1000, 1000, 2000, 1000)):
    """Return a job whose rank 2 takes twice as long as the others, for this amount of work instead of 1000."""
    bare = steps(64, *(rank(forward=0.060 * times) for times in (1, 1, 2, 1)), stands_for=2)
    rows = [first, *[(1000, 1000, work, 1000)] * 63]
    return job([replace(s, columns={**s.columns, amount: row}) for s, row in zip(bare, rows, strict=True)])


def young(hardware):
    """Return a job of thirteen steps: too few to exclude chance, but long enough in seconds."""
    few = [replace(step, stands_for=8) for step in later_steps(13, *with_slow_rank(2, forward=0.100))]
    return job(few, hardware=hardware)


def pressed(seconds, resource="cpu"):
    """Return four hosts; `seconds` has the time for which processes of a host waited for the resource, by host."""
    return [host(name, pressure={resource: seconds.get(name, 0.0)}) for name in HOSTS]


def contended(seed, hardware=(), bound=(1,), size=2, quiet=0, number=32):
    """Return a job of uneven steps in whose last ones the bound ranks lose slices to other programs, and rank 0 too."""
    draw, rows = random.Random(seed), []
    for index in range(quiet + number):
        forward = [0.060 * draw.lognormvariate(0, 0.3) for _ in range(size)]
        forward[0] += 0.030 * (draw.random() < 0.3)
        lost = [draw.choice((0.030, 0.030, 0.060)) if r in bound and index >= quiet else 0.0 for r in range(size)]
        rows.append([rank(forward=a + b) for a, b in zip(forward, lost, strict=True)])
    return job(*(later_steps(1, *row) for row in rows), size=size, hardware=hardware)


def two_hosts(hardware):
    """Return a job with two ranks on each of two hosts; those of the first host compute longer."""
    slow = job(healthy_steps(), later_steps(20, *[rank(forward=0.100)] * 2, *[rank()] * 2), hardware=hardware)
    return replace(slow, ranks=tuple(replace(r, host=TWO[r.rank]) for r in slow.ranks))


def just_finished():
    """Return a job with a slow link of which only rank 0 has finished a step; agents look at different moments."""
    slow = slow_exchange(connected())
    return replace(slow, ranks=(slow.ranks[0], *(replace(r, step_seconds=1.0) for r in slow.ranks[1:])))


QUOTA = [host(name, ranks=(r,), held_back=4.0 if r == 2 else 0.0) for r, name in enumerate(HOSTS)]
SHARED = [host("node-a", pressure={"cpu": 30.0}, ranks=range(8), held_back=20.0), host("node-b")]
TWO = ("node-a", "node-a", "node-b", "node-b")
ONE = ("node-a",) * 8
BOUND = delayed(0.01, 0.0, 0.30, 0.02)  # rank 2 waits for a core that others use
BOUND_OF_TWO = delayed(0.02, 0.30, hosts=ONE)
CROWDED = delayed(0.50, 0.45, 0.90, 0.40, 0.55, 0.60, 0.50, 0.70, hosts=ONE)
LONG = [rank(forward=1.2)] * 4
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
    Case("a rank waits longer for rows on its disk", lambda: slow_disk(), "offload_straggler", (2,),
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
    Case("a rank is 5 % slower", lambda: job(steps(64, *with_slow_rank(1, forward=0.0635, data=0.0105), stands_for=2))),
    Case("a rank is up to 23 % slower, and less than 15 % of the step is lost",
         lambda forward: slow_rank(1, forward=forward), over=(0.066, 0.075, 0.076)),
    Case("a rank pauses for the time of ten steps",
         lambda: job(healthy_steps(), later_steps(1, *with_slow_rank(1, forward=1.0)), later_steps(15))),
    Case("a core of a rank is contended for 2 s, up to 3 s ago",
         lambda after: job(healthy_steps(), later_steps(10, *with_slow_rank(2, forward=0.120)), later_steps(after),
                           hardware=BOUND), over=range(16)),
    Case("the ranks are slow in turn", lambda: in_turn(lambda number: with_slow_rank(number % 4, forward=0.120))),
    Case("a random rank has become slow in each step, after 32 steps without a slow rank",
         lambda: in_turn(lambda n: with_slow_rank(int(LATELY[n - 32]) if n >= 32 else None, forward=0.160))),
    Case("a random rank of 2, 4 or 8 is slow in each step, at any moment of 24 s",
         lambda window: job(moving(*window[:2])[window[2] - 64 : window[2]], size=window[0]), over=WINDOWS),
    Case("a rank computes longer, and in each step another rank is equally late: its repair would gain nothing",
         lambda: in_turn(longer_by_turns)),
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
HOST_CASES = (
    Case("a rank computes longer, and its GPU lowers its clock because it is hot",
         lambda: slow_rank(forward=0.100, hardware=hot(2, "hw_thermal", "sw_power_cap")), "thermal_throttle", (2,),
         says=("GPU 2 (GPU-2) on node-c lowers its clock at 91 °C: hw_thermal, sw_power_cap",)),
    Case("a rank computes longer, and the clocks of all GPUs are lowered",
         lambda: slow_rank(forward=0.100, hardware=cards(*[("sw_power_cap",)] * 4)), "compute_straggler", (2,)),
    Case("a rank of a young job computes longer, and its GPU is hot", lambda: young(hot(2, "hw_thermal")),
         "thermal_throttle", (2,)),
    Case("a rank of a young job computes longer", lambda: young(cards((), (), (), ()))),
    Case("a rank of a young job computes longer, and the GPU of another rank is hot",
         lambda: young(hot(1, "hw_thermal")), "thermal_throttle", (1,), "info"),
    Case("a rank computes longer, and its GPU has a power cap",
         lambda: slow_rank(forward=0.100, hardware=hot(2, "sw_power_cap")), "compute_straggler", (2,),
         says=("lowers its clock at 91 °C: sw_power_cap",)),
    Case("a rank waits longer for its data, and its GPU has a power cap",
         lambda: slow_rank(data=0.060, hardware=hot(2, "sw_power_cap")), "input_straggler", (2,),
         hides="lowers its clock"),
    Case("a GPU is hot, and its rank keeps up", lambda: job(healthy_steps(), hardware=hot(1, "sw_thermal")),
         "thermal_throttle", (1,), "info", says=("does not hold the others back",)),
    Case("a GPU has a power cap, and its rank keeps up", lambda: job(healthy_steps(), hardware=hot(1, "sw_power_cap"))),
    Case("a rank computes longer, and processes on its host wait for a core",
         lambda: slow_rank(forward=0.100, hardware=pressed({**dict.fromkeys(HOSTS, 0.5), "node-c": 8.0})),
         "host_pressure", (2,), says=("on node-c it waited 8.0 s of the last 60 s for cpu",)),
    Case("a rank computes longer, and has used up the share of cores of its control group",
         lambda: slow_rank(forward=0.100, hardware=QUOTA), "host_pressure", (2,)),
    Case("a rank computes longer, and processes wait for a core everywhere, elsewhere or for a moment",
         lambda seconds: slow_rank(forward=0.100, hardware=pressed(seconds)), "compute_straggler", (2,),
         over=({"node-a": 8.0, "node-b": 7.0, "node-c": 8.0, "node-d": 9.0}, {"node-a": 8.0}, {"node-c": 0.2})),
    Case("one of eight ranks of a host computes longer, and processes there wait for a core",
         lambda: slow_rank(2, 8, forward=0.100, hardware=SHARED), "compute_straggler", (2,)),
    # Its wait for a processor.
    Case("a rank computes longer, and waits for a processor, unlike most ranks",
         lambda hardware: slow_rank(forward=0.100, hardware=hardware), "host_pressure", (2,),
         says=("rank 2 waits 30% of the time for a processor (the median rank 1%): other programs run on its cores",
               "taskset -cp", "ps -eLo"),
         over=(BOUND, delayed(0.01, 0.25, 0.30, 0.01), delayed(0.01, None, 0.30, None))),
    Case("a rank of a young job with uneven steps waits for a processor, and the other one does not",
         lambda seed: contended(seed, BOUND_OF_TWO), "host_pressure", (1,), over=range(8)),
    Case("a rank of a young job with uneven steps computes longer, and both ranks wait for processors",
         lambda seed: contended(seed, delayed(0.2, 0.3, hosts=ONE)), over=range(8)),
    Case("a rank of a young job with uneven steps computes longer, and its wait for a processor is unknown", contended,
         over=range(8)),
    Case("a rank of a job with uneven steps waits for a processor for 5 s",
         lambda seed: contended(seed, BOUND_OF_TWO, quiet=44, number=20), over=range(8)),
    Case("eight ranks wait for two cores", lambda seed: contended(seed, CROWDED, bound=range(8), size=8, number=64),
         over=range(8)),
    Case("a rank computes longer, and its wait for a processor is short, as long as those of others, or unknown",
         lambda hardware: slow_rank(forward=0.100, hardware=hardware), "compute_straggler", (2,),
         over=(delayed(0.0, 0.0, 0.05, 0.0), delayed(0.20, 0.16, 0.30, 0.18), delayed(0.0, 0.0, None, 0.0),
               delayed(None, None, 0.30, None))),
    Case("the ranks of one of two hosts compute longer, and wait for processors",
         lambda: two_hosts(delayed(0.31, 0.30, 0.01, 0.0, hosts=TWO)), "host_pressure", (0, 1),
         says=("all ranks on node-a wait at least 30% of the time for a processor (the median rank 1%)",)),
    Case("a rank with busy loader workers is 5 % slower, and waits for a processor",
         lambda: job(steps(64, *with_slow_rank(1, data=0.0135), stands_for=2), hardware=delayed(0.0, 0.04, 0.0, 0.0))),
)  # fmt: skip
NETWORK_CASES = (
    Case("collectives take longer, and the connections of a host are slow", lambda: slow_exchange(connected()),
         "network_slow", ("node-c",),
         says=("90.0 ms of a step of 164.2 ms are exposed time", "(30.0 ms in the baseline)", "ethtool eth1",
               "device='eth1'")),
    Case("collectives are most of the step, also in the baseline, and the connections of a host are slow",
         lambda: exchanging(connected(), Baseline(64, 0.164, 0.070, 0.010, 0.090, 128)), "network_slow", ("node-c",)),
    Case("collectives take longer, and connections are unknown, equally fast, or of two hosts only", slow_exchange,
         over=((), connected(busy=0.15), connected()[2:])),
    Case("collectives are a third of the step of a job without a baseline, and the connections of a host are slow",
         lambda: job(healthy_steps(), hardware=connected()), "network_slow", ("node-c",)),
    Case("collectives are a third of the step of a job without a baseline",
         lambda: job(healthy_steps(), hardware=connected(busy=0.1))),
    Case("the connections of a host are slow, and no step of 164 ms has ended for 1 s: the host may be cut off",
         lambda: slow_exchange(connected(), step_seconds=1.0)),
    Case("the connections of a host are slow, and one rank has just ended a step", just_finished, "network_slow",
         ("node-c",)),
    Case("the connections of a host are slow, and collectives take no longer",
         lambda: job(healthy_steps(), baseline=GOOD, hardware=connected())),
)  # fmt: skip

# -- how findings end ----------------------------------------------------------------------------------------


def slowed():
    """Return a job in which rank 1 holds the others back."""
    return slow_rank(1, forward=0.100)


def stalled():
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
    quick = [later_steps(1, *with_slow_rank(1, forward=seconds)) for seconds in forward_times]
    return job(later_steps(40, *with_slow_rank(1, forward=0.100)), *quick)


def exchanging(hardware=(), baseline=None):
    """Return a job that exchanges for most of each step by design."""
    return job(steps(40, *[rank(exchange=0.090)] * 4, stands_for=2), hardware=hardware, baseline=baseline)


RESOLUTIONS = (
    Resolution("the rank is up to 8 % slower than the others", slowed, lambda forward: slow_rank(1, forward=forward),
               True, over=(0.060, 0.066)),
    Resolution("the rank is 22 % slower, which is only just below the threshold", slowed,
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
HOST_RESOLUTIONS = (
    Resolution("the driver of the hot GPU does not answer", lambda: job(healthy_steps(), hardware=hot(1, "sw_thermal")),
               lambda: job(healthy_steps()), False),
    Resolution("the GPU has cooled down", lambda: job(healthy_steps(), hardware=hot(1, "sw_thermal")),
               lambda: job(healthy_steps(), hardware=cards((), (), (), ())), True),
)  # fmt: skip
NETWORK_RESOLUTIONS = (
    Resolution("the exposed time has shrunk by half", lambda: slow_exchange(connected()),
               lambda: slow_exchange(exchange=0.060), False),
    Resolution("the exposed time is that of the baseline", lambda: slow_exchange(connected()),
               lambda: job(healthy_steps(), baseline=GOOD), True),
    Resolution("the exposed time is still long, and the links are equally fast", lambda: slow_exchange(connected()),
               lambda: exchanging(connected(busy=0.1)), True),
    Resolution("the exposed time is still long, and a link is slow or the links are unknown",
               lambda: slow_exchange(connected()), exchanging, False, over=(connected(), ())),
)  # fmt: skip
