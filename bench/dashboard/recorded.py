"""What the rules of dashboards/rules record of the job that is played: each name that a chart or a tile asks for."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from math import nan
from statistics import median

from bench.cluster import RANKS_PER_AGENT
from bench.dashboard import concluded
from bench.dashboard.scene import JOB, KINDS, OPS, PLAYED_SECONDS, Scene
from zmon.schema.host import GpuSample, HostLoad

Found = tuple[str, dict[str, str], tuple[float, ...], bool]  # name, labels, by kind of time, whether it grows

_GPU: dict[str, tuple[str, Callable[[GpuSample], float]]] = {  # by what charts call it
    "utilization": ("utilization:ratio", lambda card: card.utilization_ratio or 0.0),
    "temperature": ("temperature:celsius", lambda card: card.temperature_celsius or 0.0),
    "clock": ("sm_clock:hertz", lambda card: card.clocks_hertz["sm"]),
    "power": ("power:watts", lambda card: card.power_watts or 0.0),
    "memory": ("memory_used:bytes", lambda card: float(card.memory_used_bytes or 0)),
}
_SPREAD: dict[str, Callable[[Sequence[float]], float]] = {"largest": max, "median": median, "smallest": min}


def recorded(scene: Scene) -> Iterator[Found]:
    """All of it."""
    yield from _of_ranks(scene)
    yield from _of_hosts(scene)
    yield from _of_many(scene)
    yield from _of_job(scene)


def _of_ranks(scene: Scene) -> Iterator[Found]:
    for rank in range(scene.num_ranks):
        states = [scene.rank(kind, rank) for kind in KINDS]
        me = {"job_id": JOB, "rank": str(rank), "host": states[0].host}
        totals = {
            "waiting_seconds": [state.measures.exposed_seconds for state in states],
            "self_seconds": [state.measures.self_seconds for state in states],
            "all_to_all_sent_bytes": [state.measures.ops["all_to_all"].sent_bytes for state in states],
        }
        for what, each in totals.items():
            yield f"zmon:rank_{what}:total", me, tuple(one / PLAYED_SECONDS for one in each), True
        inside = tuple(state.in_flight.seconds if state.in_flight else 0.0 for state in states)
        yield "zmon:rank_in_flight:seconds", me, inside, False
        held = tuple(state.memory.allocated_bytes if state.memory else nan for state in states)
        yield "zmon:rank_memory:bytes", me | {"kind": "GPU"}, held, False


def _of_hosts(scene: Scene) -> Iterator[Found]:
    for host in scene.hosts:
        samples = [scene.sample(kind, host) for kind in KINDS]
        here = {"host": host}
        cards = [sample.gpus or () for sample in samples]
        for place, card in enumerate(cards[0]):
            me = here | {"gpu": card.gpu, "uuid": card.uuid}
            for recorded_as, value in _GPU.values():
                yield f"zmon:gpu_{recorded_as}", me, tuple(value(those[place]) for those in cards), False
            held = tuple(1.0 if those[place].throttled["sw_power_cap"] else nan for those in cards)
            if held != (nan,) * len(held):
                yield "zmon:gpu_throttled:on", here | {"gpu": card.gpu, "reason": "sw_power_cap"}, held, False
        for place in (0, 1):
            nics = [sample.nics[place] for sample in samples if sample.nics]
            link = {**here, "device": nics[0].device}
            sent = tuple(nic.transmitted_bytes / PLAYED_SECONDS for nic in nics)
            yield "zmon:nic_receive_bytes:rate", link, sent, False
            drops = tuple(nic.errors["rx_dropped"] / PLAYED_SECONDS or nan for nic in nics)
            yield "zmon:nic_errors:rate", link | {"counter": "rx_dropped"}, drops, False
        loads = [sample.load for sample in samples]
        yield "zmon:host_cpu_busy:ratio", here, tuple(_busy(load) for load in loads), False
        free = tuple(load.memory_available_bytes for load in loads)
        yield "zmon:host_memory_available:bytes", here, free, False
        yield "zmon:host_swap_used:bytes", here, (0.0,) * 3, False
        for resource, seconds in loads[0].pressure_seconds.items():
            share = (seconds / PLAYED_SECONDS,) * 3
            yield "zmon:host_pressure:ratio", here | {"resource": resource}, share, False
        yield "zmon:tcp_retransmitted_segments:rate", here, (0.2,) * 3, False
        yield "zmon:job_host:ranks", {"job_id": JOB, **here}, (float(RANKS_PER_AGENT),) * 3, False


def _of_many(scene: Scene) -> Iterator[Found]:
    """Of hosts and cards that are too many for a line each: the three that tell of all; and of ranks those of hosts."""
    samples = [[scene.sample(kind, host) for host in scene.hosts] for kind in KINDS]

    def three(name: str, each: list[list[float]], **labels: str) -> Iterator[Found]:
        for spread, of in _SPREAD.items():
            at = tuple(of(values) for values in each)
            yield f"zmon:job_{name}:spread", {"job_id": JOB, **labels, "spread": spread}, at, False

    for what, (_, value) in _GPU.items():
        yield from three(
            f"gpu_{what}", [[value(card) for one in hosts for card in one.gpus or ()] for hosts in samples]
        )
    nics = [[nic.transmitted_bytes / PLAYED_SECONDS for one in hosts for nic in one.nics or ()] for hosts in samples]
    yield from three("nic_receive_bytes", nics)
    loads = [[one.load for one in hosts] for hosts in samples]
    yield from three("cpu_busy", [[_busy(load) for load in those] for those in loads])
    yield from three("memory_available", [[load.memory_available_bytes for load in those] for those in loads])
    yield from three("swap_used", [[0.0]] * 3)
    yield from three("tcp_retransmitted", [[0.2]] * 3)
    for resource, seconds in loads[0][0].pressure_seconds.items():
        yield from three("pressure", [[seconds / PLAYED_SECONDS]] * 3, resource=resource)
    for place, host in enumerate(scene.hosts):
        mine = range(place * RANKS_PER_AGENT, min((place + 1) * RANKS_PER_AGENT, scene.num_ranks))
        measures = [[scene.rank(kind, rank).measures for rank in mine] for kind in KINDS]
        least = tuple(min(one.exposed_seconds for one in those) / PLAYED_SECONDS for those in measures)
        yield "zmon:job_host_waiting:min", {"job_id": JOB, "host": host}, least, False
        most = tuple(max(one.self_seconds for one in those) / PLAYED_SECONDS for those in measures)
        yield "zmon:job_host_own:max", {"job_id": JOB, "host": host}, most, False


def _busy(load: HostLoad) -> float:
    return 1 - load.cpu_seconds["idle"] / sum(load.cpu_seconds.values())


def _of_job(scene: Scene) -> Iterator[Found]:
    """All ranks are much like the first."""
    me = {"job_id": JOB}
    leads = [scene.rank(kind, 0) for kind in KINDS]
    every = [state.measures for state in leads]
    ranks = scene.num_ranks / PLAYED_SECONDS
    for activity in ("train", "eval"):
        there = tuple(scene.num_ranks * 1.0 if state.activity == activity else nan for state in leads)
        yield "zmon:job_activity:ranks", me | {"activity": activity}, there, False
    seconds = tuple(concluded.job(scene, kind).step_seconds or nan for kind in KINDS)
    yield "zmon:job_step_seconds:median", me, seconds, False
    samples = tuple((one.samples or 0) * ranks for one in every)
    yield "zmon:job_samples:rate", me, samples, False
    yield "zmon:job_busy:max", me, (1.0,) * len(KINDS), False
    for key, value in leads[0].report.items():
        yield "zmon:job_report:mean", me | {"key": key}, (value or nan,) * 3, False
    for op in OPS:
        totals = [one.ops[op] for one in every]
        of = me | {"op": op}
        for direction in ("sent", "received"):
            num_bytes = tuple(one.sent_bytes * ranks for one in totals)
            yield "zmon:job_collective_bytes:rate", of | {"direction": direction}, num_bytes, False
        inflight = tuple(one.inflight_seconds * ranks for one in totals)
        yield "zmon:job_collective_seconds:rate", of, inflight, False
        exposed = tuple(one.exposed_seconds * ranks for one in totals)
        yield "zmon:job_collective_exposed_seconds:rate", of, exposed, False
    states = [[scene.rank(kind, rank) for rank in range(scene.num_ranks)] for kind in KINDS]
    for spread, of in _SPREAD.items():
        held = tuple(of([state.memory.allocated_bytes for state in those if state.memory]) for those in states)
        yield "zmon:job_rank_memory:spread", me | {"kind": "GPU", "spread": spread}, held, False
        sends = tuple(
            of([state.measures.ops["all_to_all"].sent_bytes / PLAYED_SECONDS for state in those]) for those in states
        )
        yield "zmon:job_all_to_all_sent_bytes:spread", me | {"spread": spread}, sends, False
    yield "zmon:job_all_to_all_skew:ratio", me, (1.09, 1.09, nan), False
    for direction in ("sent", "received"):
        num_bytes = tuple((one.network_sent_bytes or 0) * ranks for one in every)
        yield "zmon:job_network_bytes:rate", me | {"direction": direction}, num_bytes, False
        yield "zmon:job_step_nic_bytes:rate", me | {"direction": direction}, num_bytes, False
