"""The series that the recording rules of dashboards/rules would record for the simulated job."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from math import isnan, nan
from statistics import mean, median
from typing import NamedTuple

from bench.cluster import RANKS_PER_AGENT
from bench.dashboard import hub_answers
from bench.dashboard.scene import JOB, KINDS, OPS, SIMULATED_SECONDS, Scene, by_word
from zmon.schema.host import GpuSample, HostLoad, HostSample, NicSample
from zmon.schema.rank import RankState


class Values(NamedTuple):
    """A series with its value for each kind of time. NaN means no samples."""

    name: str
    labels: dict[str, str]
    by_kind: tuple[float, ...]
    grows: bool = False  # True: the value is its growth per second


class GpuSeries(NamedTuple):
    """A value of a GPU that the rules record."""

    name: str  # of the series of one GPU, after zmon:gpu_
    value: Callable[[GpuSample], float]


_GPU: dict[str, GpuSeries] = {  # by the name in the series of the whole job
    "utilization": GpuSeries("utilization:ratio", lambda gpu: gpu.utilization_ratio or 0.0),
    "temperature": GpuSeries("temperature:celsius", lambda gpu: gpu.temperature_celsius or 0.0),
    "clock": GpuSeries("sm_clock:hertz", lambda gpu: gpu.clocks_hertz["sm"]),
    "power": GpuSeries("power:watts", lambda gpu: gpu.power_watts or 0.0),
    "memory": GpuSeries("memory_used:bytes", lambda gpu: float(gpu.memory_used_bytes or 0)),
}
STAND_OUT = 64  # hosts farthest from the median, which the rules record
FASTEST = 10  # counters of errors that grow fastest, which the rules record
_SPREAD: dict[str, Callable[[Sequence[float]], float]] = {"largest": max, "median": median, "smallest": min}


def constant(value: float) -> tuple[float, ...]:
    """Return the values of a series that is the same in all kinds of time."""
    return (float(value),) * len(KINDS)


def recorded(scene: Scene) -> Iterator[Values]:
    """Yield all recorded series."""
    yield from _ranks(scene)
    host_series = list(_hosts(scene))
    yield from host_series
    yield from _sums_of_hosts(host_series)
    spreads = list(_spreads(scene))
    yield from spreads
    yield from _stand_out(series for series in spreads if series.name.startswith("zmon:job_host_"))
    yield from _job(scene)


def _ranks(scene: Scene) -> Iterator[Values]:
    for rank in range(scene.num_ranks):
        states = [scene.rank(kind, rank) for kind in KINDS]
        labels = {"job_id": JOB, "rank": str(rank), "host": states[0].host}
        totals = {
            "waiting_seconds": [sum(by_word(state, "exposed_").values()) for state in states],
            "self_seconds": [sum(by_word(state, "phase_").values()) for state in states],
            "all_to_all_sent_bytes": [_totals(state)["bytes_sent_all_to_all"] for state in states],
        }
        for name, values in totals.items():
            per_second = tuple(value / SIMULATED_SECONDS for value in values)
            yield Values(f"zmon:rank_{name}:total", labels, per_second, grows=True)
        in_flight = tuple(state.in_flight.seconds if state.in_flight else 0.0 for state in states)
        yield Values("zmon:rank_in_flight:seconds", labels, in_flight)
        allocated = tuple(_totals(state)["device_memory_allocated"] for state in states)
        yield Values("zmon:rank_memory:bytes", labels | {"kind": "GPU"}, allocated)


def _hosts(scene: Scene) -> Iterator[Values]:
    for host in scene.hosts:
        samples = [scene.sample(kind, host) for kind in KINDS]
        labels = {"host": host}
        gpus = [sample.gpus or () for sample in samples]
        for number, gpu in enumerate(gpus[0]):
            gpu_labels = labels | {"gpu": gpu.gpu, "uuid": gpu.uuid}
            for name, value in _GPU.values():
                yield Values(f"zmon:gpu_{name}", gpu_labels, tuple(value(by_kind[number]) for by_kind in gpus))
            throttled = tuple(1.0 if by_kind[number].throttled["sw_power_cap"] else nan for by_kind in gpus)
            if not all(map(isnan, throttled)):
                yield Values("zmon:gpu_throttled:on", labels | {"gpu": gpu.gpu, "reason": "sw_power_cap"}, throttled)
        for number in (0, 1):
            nics = [sample.nics[number] for sample in samples if sample.nics]
            link = {**labels, "device": nics[0].device}
            received = tuple(_received_per_second(nic) for nic in nics)
            yield Values("zmon:nic_receive_bytes:rate", link, received)
            drops = tuple(nic.errors["rx_dropped"] / SIMULATED_SECONDS or nan for nic in nics)
            yield Values("zmon:nic_errors:rate", link | {"counter": "rx_dropped"}, drops)
        loads = [_load(sample) for sample in samples]
        yield Values("zmon:host_cpu_busy:ratio", labels, tuple(_busy(load) for load in loads))
        busy = tuple(mean(gpu.utilization_ratio or 0.0 for gpu in by_kind) for by_kind in gpus)
        yield Values("zmon:host_busy:ratio", labels, busy)
        free = tuple(load.memory_available_bytes for load in loads)
        yield Values("zmon:host_memory_available:bytes", labels, free)
        yield Values("zmon:host_swap_used:bytes", labels, constant(0.0))
        for resource, seconds in loads[0].pressure_seconds.items():
            ratio = constant(seconds / SIMULATED_SECONDS)
            yield Values("zmon:host_pressure:ratio", labels | {"resource": resource}, ratio)
        yield Values("zmon:tcp_retransmitted_segments:rate", labels, constant(0.2))
        yield Values("zmon:job_host:ranks", {"job_id": JOB, **labels}, constant(RANKS_PER_AGENT))


def _spreads(scene: Scene) -> Iterator[Values]:
    """Yield the largest, median and smallest value over all hosts or GPUs, and the extremes of ranks by host."""
    samples = [[scene.sample(kind, host) for host in scene.hosts] for kind in KINDS]

    def spread_of(name: str, by_kind: list[list[float]], **labels: str) -> Iterator[Values]:
        for spread, statistic in _SPREAD.items():
            values = tuple(statistic(by_host) for by_host in by_kind)
            yield Values(f"zmon:job_{name}:spread", {"job_id": JOB, **labels, "spread": spread}, values)

    for name, (_, value) in _GPU.items():
        gpus = [[value(gpu) for sample in hosts for gpu in sample.gpus or ()] for hosts in samples]
        yield from spread_of(f"gpu_{name}", gpus)
    nics = [[_received_per_second(nic) for sample in hosts for nic in sample.nics or ()] for hosts in samples]
    yield from spread_of("nic_receive_bytes", nics)
    loads = [[_load(sample) for sample in hosts] for hosts in samples]
    yield from spread_of("cpu_busy", [[_busy(load) for load in hosts] for hosts in loads])
    yield from spread_of("memory_available", [[load.memory_available_bytes for load in hosts] for hosts in loads])
    yield from spread_of("swap_used", [[0.0]] * len(KINDS))
    yield from spread_of("tcp_retransmitted", [[0.2]] * len(KINDS))
    for resource, stalled_seconds in loads[0][0].pressure_seconds.items():
        yield from spread_of("pressure", [[stalled_seconds / SIMULATED_SECONDS]] * len(KINDS), resource=resource)
    for number, host in enumerate(scene.hosts):
        ranks = range(number * RANKS_PER_AGENT, min((number + 1) * RANKS_PER_AGENT, scene.num_ranks))
        states = [[scene.rank(kind, rank) for rank in ranks] for kind in KINDS]
        for name, statistic, prefix in (("waiting:min", min, "exposed_"), ("own:max", max, "phase_")):
            seconds = [[sum(by_word(state, prefix).values()) for state in by_rank] for by_rank in states]
            values = tuple(statistic(by_rank) / SIMULATED_SECONDS for by_rank in seconds)
            yield Values(f"zmon:job_host_{name}", {"job_id": JOB, "host": host}, values)


def _stand_out(host_series: Iterable[Values]) -> Iterator[Values]:
    """Yield the spread of each series of hosts, and the distance from the median for the hosts that are farthest."""
    by_name: dict[str, dict[str, tuple[float, ...]]] = {}
    for series in host_series:
        by_name.setdefault(series.name.rpartition(":")[0], {})[series.labels["host"]] = series.by_kind
    for name, by_host in by_name.items():
        sign = -1 if name.endswith("waiting") else 1  # the host that waits least stands out
        columns = list(zip(*by_host.values(), strict=True))
        for spread, statistic in _SPREAD.items():
            yield Values(f"{name}:spread", {"job_id": JOB, "spread": spread}, tuple(map(statistic, columns)))
        gaps = {
            host: tuple(sign * (value - median(column)) for value, column in zip(values, columns, strict=True))
            for host, values in by_host.items()
        }
        limits = [sorted(column)[-min(STAND_OUT, len(gaps))] for column in zip(*gaps.values(), strict=True)]
        for host, values in gaps.items():
            shown = tuple(value if value >= limit else nan for value, limit in zip(values, limits, strict=True))
            if not all(map(isnan, shown)):
                yield Values(f"{name}:gap", {"job_id": JOB, "host": host}, shown)


def _sums_of_hosts(host_series: Sequence[Values]) -> Iterator[Values]:
    """Yield the number of throttled GPUs, and the counters of links that grow fastest."""
    throttled = [series.by_kind for series in host_series if series.name == "zmon:gpu_throttled:on"]
    if throttled:
        numbers = tuple(sum(not isnan(value) for value in column) or nan for column in zip(*throttled, strict=True))
        yield Values("zmon:job_gpu_throttled:count", {"job_id": JOB, "reason": "sw_power_cap"}, numbers)
    errors = [
        series
        for series in host_series
        if series.name == "zmon:nic_errors:rate" and not all(map(isnan, series.by_kind))
    ]
    for series in errors[:FASTEST]:
        yield Values("zmon:job_nic_errors:max", {"job_id": JOB, **series.labels}, series.by_kind)


def _busy(load: HostLoad) -> float:
    return 1 - load.cpu_seconds["idle"] / sum(load.cpu_seconds.values())


def _totals(state: RankState) -> dict[str, float]:
    """Return the totals of a rank: a simulated rank always has them."""
    assert state.totals is not None
    return state.totals


def _load(sample: HostSample) -> HostLoad:
    """Return the load of a host: a simulated host always has it."""
    assert sample.load is not None
    return sample.load


def _received_per_second(nic: NicSample) -> float:
    """Return the bytes per second that an interface receives: a simulated interface always counts them."""
    assert nic.received_bytes is not None
    return nic.received_bytes / SIMULATED_SECONDS


def _job(scene: Scene) -> Iterator[Values]:
    """Yield the series of the whole job; all ranks are similar to the first."""
    labels = {"job_id": JOB}
    first_rank = [scene.rank(kind, 0) for kind in KINDS]
    totals = [_totals(state) for state in first_rank]
    rate = scene.num_ranks / SIMULATED_SECONDS  # a total of the first rank × this: of the job, per second
    for activity in ("train", "eval"):
        active = tuple(float(scene.num_ranks) if state.activity == activity else nan for state in first_rank)
        yield Values("zmon:job_activity:ranks", labels | {"activity": activity}, active)
    seconds = tuple(hub_answers.job(scene, kind).step_seconds or nan for kind in KINDS)
    yield Values("zmon:job_step_seconds:median", labels, seconds)
    accounts = [hub_answers.job(scene, kind).gpu_seconds for kind in KINDS]
    for cause in dict.fromkeys(cause for account in accounts for cause in account):
        per_second = tuple(account.get(cause, 0.0) / SIMULATED_SECONDS for account in accounts)
        yield Values("zmon:job_gpu_seconds:total", labels | {"cause": cause}, per_second, grows=True)
    samples = tuple(kind_totals["samples"] * rate for kind_totals in totals)
    yield Values("zmon:job_samples:rate", labels, samples)
    yield Values("zmon:job_busy:max", labels, constant(1.0))
    for key, value in first_rank[0].report.items():
        yield Values("zmon:job_report:mean", labels | {"key": key}, constant(value or nan))
    for op in OPS:
        op_labels = labels | {"op": op}
        for direction in ("sent", "received"):
            num_bytes = tuple(kind_totals[f"bytes_{direction}_{op}"] * rate for kind_totals in totals)
            yield Values("zmon:job_collective_bytes:rate", op_labels | {"direction": direction}, num_bytes)
        inflight = tuple(kind_totals[f"inflight_{op}"] * rate for kind_totals in totals)
        yield Values("zmon:job_collective_seconds:rate", op_labels, inflight)
        exposed = tuple(kind_totals[f"exposed_{op}"] * rate for kind_totals in totals)
        yield Values("zmon:job_collective_exposed_seconds:rate", op_labels, exposed)
    states = [[scene.rank(kind, rank) for rank in range(scene.num_ranks)] for kind in KINDS]
    for spread, statistic in _SPREAD.items():
        allocated = tuple(
            statistic([_totals(state)["device_memory_allocated"] for state in by_rank]) for by_rank in states
        )
        yield Values("zmon:job_rank_memory:spread", labels | {"kind": "GPU", "spread": spread}, allocated)
        sent = tuple(
            statistic([_totals(state)["bytes_sent_all_to_all"] / SIMULATED_SECONDS for state in by_rank])
            for by_rank in states
        )
        yield Values("zmon:job_all_to_all_sent_bytes:spread", labels | {"spread": spread}, sent)
    yield Values("zmon:job_all_to_all_skew:ratio", labels, (1.09, 1.09, nan))
    for direction in ("sent", "received"):
        num_bytes = tuple(kind_totals[f"nic_{direction}"] * rate for kind_totals in totals)
        yield Values("zmon:job_step_nic_bytes:rate", labels | {"direction": direction}, num_bytes)
    yield Values("zmon:job_storage_read_bytes:rate", labels, constant(2e9))
