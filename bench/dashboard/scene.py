"""A simulated job over some hours: the state of each rank and of each host at every moment.

There are three kinds of time: usual, slow and evaluating. In slow time, all ranks wait for one slow rank, the culprit.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np

from bench.cluster import RANK, RANKS_PER_AGENT
from dashboards.intervals import CLUSTER, ONE_MACHINE, Intervals
from zmon.schema.host import ClockSample, GpuSample, HeldGpus, HostLoad, HostSample, NicSample, TcpSample
from zmon.schema.rank import InFlight, RankState

JOB = "ads"
USUAL, SLOW, EVALUATING = KINDS = range(3)
SIMULATED_SECONDS = 1000  # simulated seconds of each kind, so that counts are whole numbers
STEP_SECONDS = (0.25, 0.40)  # usual, slow
LARGE_RANKS = 2048  # a job with more ranks runs in a cluster, whose agents are scraped less often, and has fewer series
EARLIER_SECONDS = 2400  # history before the range of the views, because a view of an earlier moment starts earlier
PHASES = {
    "forward": 0.30, "backward": 0.38, "embedding": 0.12, "optimizer": 0.08, "data": 0.06, "h2d": 0.03, "other": 0.03,
}  # fmt: skip
OPS = {"all_to_all": 0.60, "all_reduce": 0.30, "all_gather": 0.06, "reduce_scatter": 0.04}
SENT_BYTES = 80e6  # bytes that a rank sends in all_to_all in each step
SAMPLES = 512  # samples of a rank in each step
_GIBI = 1 << 30
_THROTTLES = ("sw_power_cap", "hw_slowdown", "sync_boost", "sw_thermal", "hw_thermal", "hw_power_brake")


class Period(NamedTuple):
    """A part of the history."""

    begin: float  # unix seconds
    end: float

    def seconds_until(self, times: np.ndarray) -> np.ndarray:
        """Return the seconds of this period before each of these times."""
        return np.clip(times - self.begin, 0, self.end - self.begin)

    def includes(self, times: np.ndarray) -> np.ndarray:
        """Return for each of these times whether it is in this period."""
        return (self.begin <= times) & (times < self.end)


@dataclass(frozen=True)
class Scene:
    """One job at `now` (unix seconds), with some hours of history and `ahead_seconds` of future."""

    num_ranks: int
    hours: float
    now: int
    ahead_seconds: int

    @property
    def start(self) -> int:
        """The start of the history."""
        return self.now - round(self.hours * 3600) - EARLIER_SECONDS

    @property
    def end(self) -> int:
        """The end of the history, which is in the future."""
        return self.now + self.ahead_seconds

    @property
    def culprit(self) -> int:
        """The rank that is slow in slow periods, and is slow now."""
        return self.num_ranks // 2 + 1

    @property
    def is_large(self) -> bool:
        """True if the history has only recorded series, and series of agents that are read at an instant."""
        return self.num_ranks > LARGE_RANKS

    @property
    def intervals(self) -> Intervals:
        """The scrape intervals of the job's agents and hub."""
        return CLUSTER if self.is_large else ONE_MACHINE

    @cached_property
    def hosts(self) -> list[str]:
        """The names of the hosts. Each has eight ranks, the last may have fewer."""
        digits = 4 if self.is_large else 3
        return [f"node-{number:0{digits}d}" for number in range(-(-self.num_ranks // RANKS_PER_AGENT))]

    @property
    def earlier_slow(self) -> Period:
        """The slow period in the middle of the hours."""
        return Period(self.now - 11 * self._part_seconds, self.now - 10 * self._part_seconds)

    @property
    def current_slow(self) -> Period:
        """The slow period that began twenty minutes ago, or less in a short history, and lasts until the end."""
        return Period(self.now - min(1200, 2 * self._part_seconds), float(self.end))

    @property
    def evaluating(self) -> Period:
        """The evaluating period, between the slow ones."""
        return Period(self.now - 6 * self._part_seconds, self.now - 5.4 * self._part_seconds)

    @property
    def _part_seconds(self) -> float:
        """A twentieth of the hours."""
        return self.hours * 3600 / 20

    def seconds_by_kind(self, times: np.ndarray) -> np.ndarray:
        """Return the seconds of each kind from the start to each of these times: (kinds, times)."""
        slow = self.earlier_slow.seconds_until(times) + self.current_slow.seconds_until(times)
        evaluating = self.evaluating.seconds_until(times)
        return np.stack([times - self.start - slow - evaluating, slow, evaluating])

    def kinds(self, times: np.ndarray) -> np.ndarray:
        """Return the kind of each of these times."""
        is_slow = self.earlier_slow.includes(times) | self.current_slow.includes(times)
        return np.where(is_slow, SLOW, np.where(self.evaluating.includes(times), EVALUATING, USUAL))

    def rank(self, kind: int, rank: int) -> RankState:
        """Return the state of a rank after SIMULATED_SECONDS of this kind."""
        draw = random.Random(rank)
        self_ratio = 0.55 + 0.05 * draw.random()
        if kind == SLOW:  # all ranks but the culprit wait for the rest of the longer step
            self_ratio = 0.93 if rank == self.culprit else self_ratio * STEP_SECONDS[USUAL] / STEP_SECONDS[SLOW]
        trains = kind != EVALUATING
        steps = round(SIMULATED_SECONDS / STEP_SECONDS[kind]) if trains else 0
        return replace(
            RANK,
            job_id=JOB, rank=rank, local_rank=rank % RANKS_PER_AGENT, world_size=self.num_ranks,
            host=self.hosts[rank // RANKS_PER_AGENT], run_uid=f"uid-{rank}", pid=4000 + rank,
            device=f"GPU-{rank:08x}", labels={"name": JOB, "model": "dlrm"},
            activity="train" if trains else "eval", steps=steps, step=steps,
            step_seconds_total=float(SIMULATED_SECONDS) if trains else 0.0,
            totals=_totals(self_ratio if trains else 0.0, steps, 0.9 + 0.2 * draw.random())
            | {"device_memory_allocated": (50 + 10 * draw.random()) * _GIBI, "device_memory_reserved": 66 * _GIBI},
            device_memory_peak_bytes=68 * _GIBI,
            in_flight=InFlight("all_to_all", "0", 301, 4096, 0.02 + 0.05 * (1 - self_ratio)),
            report={"loss": 0.45, "normalized_entropy": 0.81, "auc": 0.79},
            last_checkpoint_time=self.now - 900.0,
        )  # fmt: skip

    def sample(self, kind: int, host: str) -> HostSample:
        """Return the hardware sample of a host after SIMULATED_SECONDS of this kind."""
        draw = random.Random(host)
        steps = SIMULATED_SECONDS / STEP_SECONDS[kind] if kind != EVALUATING else 0
        nic_bytes = round(steps * SENT_BYTES * RANKS_PER_AGENT / 2 * draw.uniform(0.9, 1.1))
        nics = tuple(
            NicSample(f"eth{n}", "tcp", True, 25e9, nic_bytes, nic_bytes, {"rx_errors": 0, "rx_dropped": dropped})
            for n, dropped in enumerate((0, SIMULATED_SECONDS // 50))
        )
        busy = 0.1 * draw.uniform(0.8, 1.5)
        modes = {"user": busy, "system": busy / 4, "idle": 1 - busy, "iowait": 0.01, "steal": 0.0}
        load = HostLoad(
            {mode: 96 * SIMULATED_SECONDS * share for mode, share in modes.items()},
            memory_available_bytes=round(draw.uniform(1.0, 1.4) * 1e12),
            memory_total_bytes=2 * 10**12,
            swap_used_bytes=0,
            runnable=4,
            blocked=0,
            major_faults=0,
            oom_kills=0,
            pressure_seconds={"cpu": 20.0, "memory": 1.0, "io": 3.0},
            full_pressure_seconds={"memory": 0.0, "io": 1.0},
        )
        gpus = tuple(_gpu(kind, host, number) for number in range(RANKS_PER_AGENT))
        clock = ClockSample(offset_seconds=0.0002, synchronized=True)
        held = HeldGpus("slurm-4711", "ann", num_gpus=1, idle_kind="ended", idle_seconds=1200.0)
        return HostSample(nics=nics, gpus=gpus, tcp=TcpSample(200, ()), load=load, clock=clock, held=(held,))


def _totals(self_ratio: float, steps: int, sent_ratio: float) -> dict[str, float]:
    """Return the totals of a rank with this ratio of self time and this ratio of the usual bytes sent."""
    exposed_ratio = (1 - self_ratio) if steps else 0.0
    sent = round(steps * SENT_BYTES * sent_ratio)
    totals: dict[str, float] = {"samples": SAMPLES * steps, "lookups": 26 * SAMPLES * steps}
    totals |= {"nic_sent": sent, "nic_received": sent}
    totals |= {f"phase_{phase}": self_ratio * share * SIMULATED_SECONDS for phase, share in PHASES.items()}
    for (op, share), byte_ratio in zip(OPS.items(), (1.0, 0.5, 0.1, 0.1), strict=True):  # relative to all_to_all
        exposed = exposed_ratio * share * SIMULATED_SECONDS
        num_bytes = round(sent * byte_ratio)
        totals |= {f"calls_{op}": 2 * steps, f"exposed_{op}": exposed, f"inflight_{op}": 1.3 * exposed}
        totals |= {f"bytes_sent_{op}": num_bytes, f"bytes_received_{op}": num_bytes}
    return totals


def by_word(state: RankState, prefix: str) -> dict[str, float]:
    """Return the totals of a rank whose columns begin like this, by phase or op."""
    totals = (state.totals or {}).items()
    return {name.removeprefix(prefix): total for name, total in totals if name.startswith(prefix)}


def _gpu(kind: int, host: str, number: int) -> GpuSample:
    draw = random.Random(f"{host} {number}")
    is_capped = number == 0 and host.endswith("0")  # one GPU of every tenth host
    return GpuSample(
        str(number), f"GPU-{host}-{number}", "NVIDIA H100 80GB HBM3", f"0000:{number:02x}:00.0",
        memory_used_bytes=60 * 2**30, memory_total_bytes=80 * 2**30,
        utilization_ratio=(0.9, 0.6, 0.4)[kind] * draw.uniform(0.9, 1.05), power_watts=500 * draw.uniform(0.8, 1.1),
        power_limit_watts=700.0, temperature_celsius=55 + 10 * draw.random(), memory_temperature_celsius=61.5,
        clocks_hertz={"sm": 1.755e9 * draw.uniform(0.97, 1.0), "memory": 2.6e9},
        max_clocks_hertz={"sm": 1.98e9, "memory": 2.6e9},
        throttled=dict.fromkeys(_THROTTLES, False) | {"sw_power_cap": kind == SLOW and is_capped},
        ecc_errors={"volatile_corrected": 0, "volatile_uncorrected": 0},
        pcie_received_bytes=10**12, pcie_sent_bytes=10**12,
        nvlink_received_bytes=10**13, nvlink_sent_bytes=10**13, nvlink_errors=0,
    )  # fmt: skip
