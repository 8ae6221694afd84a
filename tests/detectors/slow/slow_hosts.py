"""Every case in which the hardware explains a slow rank, or in which a link holds a job back: rows of `straggler`."""

import random
from dataclasses import replace

from tests.detectors.slow.case import Case, Resolution
from tests.detectors.slow.slow_jobs import (
    GOOD,
    HOSTS,
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

TWO = ("node-a", "node-a", "node-b", "node-b")  # the hosts of four ranks
ONE = ("node-a",) * 8  # the host of eight ranks


def young(hardware):
    """Return a job of thirteen steps: too few to exclude chance, but long enough in seconds."""
    few = [replace(step, stands_for=8) for step in later_steps(13, *with_slow_rank(2, forward=0.100))]
    return job(few, hardware=hardware)


def pressed(seconds, resource="cpu"):
    """Return four hosts; `seconds` has the time for which processes of a host waited for the resource, by host."""
    return [host(name, pressure={resource: seconds.get(name, 0.0)}) for name in HOSTS]


def contended(seed, hardware=(), bound=(1,), size=2, quiet=0, number=32):
    """Return a job of uneven steps in whose last ones the bound ranks lose slices to other programs, and rank 0 too."""
    draw = random.Random(seed)
    rows = []
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


def exchanging(hardware=(), baseline=None):
    """Return a job that exchanges for most of each step by design."""
    return job(steps(40, *[rank(exchange=0.090)] * 4, stands_for=2), hardware=hardware, baseline=baseline)


QUOTA = [host(name, ranks=(r,), held_back=4.0 if r == 2 else 0.0) for r, name in enumerate(HOSTS)]
SHARED = [host("node-a", pressure={"cpu": 30.0}, ranks=range(8), held_back=20.0), host("node-b")]
BOUND = delayed(0.01, 0.0, 0.30, 0.02)  # rank 2 waits for a core that others use
BOUND_OF_TWO = delayed(0.02, 0.30, hosts=ONE)
CROWDED = delayed(0.50, 0.45, 0.90, 0.40, 0.55, 0.60, 0.50, 0.70, hosts=ONE)
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
         lambda: exchanging(connected(), replace(GOOD, seconds=0.164, exposed_seconds=0.090)), "network_slow",
         ("node-c",)),
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

HOST_RESOLUTIONS = (
    Resolution("the driver of the hot GPU does not answer", lambda: job(healthy_steps(), hardware=hot(1, "sw_thermal")),
               lambda: job(healthy_steps()), False),
    Resolution("the GPU has cooled down", lambda: job(healthy_steps(), hardware=hot(1, "sw_thermal")),
               lambda: job(healthy_steps(), hardware=cards((), (), (), ())), True),
)  # fmt: skip
NETWORK_RESOLUTIONS = (
    Resolution("the exposed time has lost half of its growth", lambda: slow_exchange(connected()),
               lambda: slow_exchange(exchange=0.060), False),
    Resolution("the exposed time is that of the baseline", lambda: slow_exchange(connected()),
               lambda: job(healthy_steps(), baseline=GOOD), True),
    Resolution("the exposed time is still long, and the links are equally fast", lambda: slow_exchange(connected()),
               lambda: exchanging(connected(busy=0.1)), True),
    Resolution("the exposed time is still long, and a link is slow or the links are unknown",
               lambda: slow_exchange(connected()), exchanging, False, over=(connected(), ())),
)  # fmt: skip
