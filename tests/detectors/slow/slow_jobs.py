"""Build jobs that have little jitter and may have a slow rank, and the hardware samples of their hosts."""

from dataclasses import replace

from tests.build import job_steps, rank_state, snapshot
from tests.detectors.network.hosts import IDLE
from zmon.schema.aligned_step import Baseline
from zmon.schema.host import (
    CgroupSample,
    GpuSample,
    HostLoad,
    HostSample,
    HostWindow,
    ProcessSample,
    TcpPeer,
    TcpSample,
)

GIB = 2**30
GOOD = Baseline(num_steps=64, seconds=0.100, self_seconds=0.070, data_seconds=0.010, exposed_seconds=0.030, samples=128)

HOSTS = ("node-a", "node-b", "node-c", "node-d")
JITTER = (1.0, 1.04, 0.97, 1.01, 0.95, 1.06, 1.0)  # factors of a rank's self time, a different one in each step


def rank(forward=0.060, data=0.010, exchange=0.030, **changes):
    """Return the arguments of one rank for a step of 100 ms."""
    return {"phases": {"data": data, "forward": forward}, "ops": {"all_to_all": exchange}, **changes}


def steps(number, *ranks, first=1, stands_for=1):
    """Return steps of these ranks, or of four equal ranks if none are given."""
    specs = ranks or (rank(),) * 4
    jittered = []
    for index in range(number):
        factors = [JITTER[(index + place) % len(JITTER)] for place in range(len(specs))]
        row = [{**r, "phases": {p: s * f for p, s in r["phases"].items()}} for r, f in zip(specs, factors, strict=True)]
        jittered += job_steps(1, *row, first=first + index * stands_for, stands_for=stands_for)
    return tuple(jittered)


def with_slow_rank(which, size=4, **changes):
    """Return equal ranks of which one is changed."""
    return [rank(**(changes if index == which else {})) for index in range(size)]


def job(*parts, size=4, hardware=(), baseline=None, **changes):
    """Return the snapshot of a job with one rank per host: the last 64 steps, every second one of 10 per second."""
    hosts = HOSTS if size == 4 else ["node-a"] * size
    ranks = [rank_state(r, world_size=size, host=hosts[r], device=f"GPU-{r}", **changes) for r in range(size)]
    recent = [step for part in parts for step in part][-64:]
    return replace(snapshot(*ranks, hardware=hardware), steps=tuple(recent), baseline=baseline)


def healthy_steps(number=48, size=4):
    """Return steps of equal ranks, every second one of them."""
    return steps(number, *[rank()] * size, stands_for=2)


def later_steps(number, *ranks):
    """Return steps of these ranks that come after the healthy ones; each is a sample that stands for two steps."""
    return steps(number, *ranks, first=201, stands_for=2)


def slow_rank(which=2, size=4, number=20, baseline=None, hardware=(), **changes):
    """Return a job in which one rank is changed in the last steps."""
    now = later_steps(number, *with_slow_rank(which, size, **changes))
    return job(healthy_steps(size=size), now, size=size, baseline=baseline, hardware=hardware)


def apart(**changes):
    """Return a job whose ranks enter no collectives and are at different steps; one of them is changed."""
    rows = [{**each, "ops": {}} for each in with_slow_rank(2, **changes)]
    whole = job(later_steps(64, *rows), sequences={})
    return replace(whole, ranks=tuple(replace(r, step=r.step - 30 * (r.rank == 2)) for r in whole.ranks))


def slow_exchange(hardware=(), exchange=0.090, baseline=GOOD, **changes):
    """Return a job in which all ranks exchange for longer than the usual 30 ms in the last steps; they take 164 ms."""
    now = later_steps(20, *[rank(exchange=exchange)] * 4)
    return job(healthy_steps(), now, baseline=baseline, hardware=hardware, **changes)


def host(name, seconds=60.0, pressure=(), gpus=None, held_back=0.0, ranks=(), swapped=0):
    """Return a host with these seconds of pressure by resource in the last minute, GPUs, group of ranks and swap."""

    def sample(waits, throttled_seconds, swap_bytes):
        pressure_seconds = {resource: 100 + waits.get(resource, 0.0) for resource in ("cpu", "io", "memory")}
        load = HostLoad({}, 8 * GIB, 16 * GIB, swap_bytes, pressure_seconds=pressure_seconds)
        group = CgroupSample(
            "/job", tuple(("job", r) for r in ranks), memory_used_bytes=None, memory_limit_bytes=None,
            cpu_limit_cores=2.0, throttled_seconds=throttled_seconds, oom_kills=None,
        )  # fmt: skip
        return HostSample(load=load, cgroups=(group,) if ranks else (), gpus=gpus)

    return HostWindow(name, seconds, sample({}, 5.0, 0), sample(dict(pressure), 5.0 + held_back, swapped))


def delayed(*ratios, hosts=HOSTS):
    """Return the hosts of these ranks, which wait for a processor for these shares of the time; None: unknown."""
    samples = {name: [] for name in hosts}
    for number, (ratio, name) in enumerate(zip(ratios, hosts, strict=False)):
        samples[name].append(ProcessSample("job", number, 1000 + number, ratio))
    now = {name: HostSample(processes=tuple(of_host)) for name, of_host in samples.items()}
    return [HostWindow(name, 60.0, HostSample(), sample) for name, sample in now.items()]


def card(index, *reasons):
    """Return a GPU at 91 °C that is throttled for these reasons."""
    return GpuSample(f"{index}", f"GPU-{index}", throttled=dict.fromkeys(reasons, True), temperature_celsius=91.0)


def cards(*throttled):
    """Return one host per entry, with the reasons for which its GPU is throttled."""
    of_hosts = enumerate(zip(HOSTS, throttled, strict=True))
    return [host(name, gpus=(card(index, *reasons),)) for index, (name, reasons) in of_hosts]


def hot(which, *reasons):
    """Return four hosts of which one has a GPU that is throttled for these reasons."""
    return cards(*(reasons if index == which else () for index in range(4)))


def connected(slow_host="node-c", busy=2.0):
    """Return four hosts that send each other 5 MB in 0.1 s of busy time; the slow one is busy for longer."""
    address = {name: f"10.0.0.{index}" for index, name in enumerate(HOSTS)}

    def sample(name, past):
        peers = [
            TcpPeer(
                "job", HOSTS.index(name), address[other], num_sockets=1, **IDLE, acked_bytes=5_000_000 * past,
                busy_seconds=past * (busy if slow_host in (name, other) else 0.1),
            )
            for other in HOSTS
            if other != name
        ]  # fmt: skip
        return TcpSample(0, tuple(peers), (address[name],), ("eth1",))

    now = {name: HostSample(tcp=sample(name, 2)) for name in HOSTS}
    return [HostWindow(name, 60.0, HostSample(), now[name], recent=sample(name, 1)) for name in HOSTS]
