"""Measure what a slow rank costs a step, and say what to do about it. Pure; all values in seconds."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean, median

import numpy as np

from zmon.job.columns import by_rank, values
from zmon.schema.aligned_step import AlignedStep

MAX_RANKS = 8  # ranks, or roles, in the evidence


def mean_saved_seconds(steps: Sequence[AlignedStep], ranks: set[int]) -> float:
    """Return the seconds by which a step would be shorter without these ranks, on average.

    Of short steps only samples are known, each with the mean of the steps since the sample before. The samples show
    delays in the sampled steps, the means show those in the other steps too. The larger result counts.
    """
    means = [step.mean or step for step in steps]
    return max(fmean(_saved_seconds(step, ranks) for step in chosen) for chosen in (steps, means))


def _saved_seconds(step: AlignedStep, ranks: set[int]) -> float:
    """Return the seconds by which the step would have ended earlier without these ranks."""
    self_times = values(step.self_seconds)
    others = np.delete(self_times, [rank for rank in ranks if rank < len(self_times)])
    return max(float(self_times.max() - others.max(initial=0.0)), 0.0)


def late_by_phase(steps: Sequence[AlignedStep], rank: int, peers: Sequence[int]) -> dict[str, float]:
    """Return the seconds by which this rank takes longer than the median of its peers, by phase."""
    others = [peer for peer in peers if peer != rank]
    names = {name for step in steps for name in step.phases}
    columns = {name: [step.phases[name] for step in steps if name in step.phases] for name in names}
    return {
        name: median(column[rank] - median(column[peer] for peer in others) for column in columns[name])
        for name in sorted(names)
    }


def slowest_self_times(steps: Sequence[AlignedStep]) -> dict[str, float]:
    """Return the self time of the slowest ranks by rank, and of the median rank as `median`."""
    self_seconds = np.median(by_rank([step.self_seconds for step in steps]), axis=1)
    ranks = np.argsort(-self_seconds, kind="stable")[:MAX_RANKS].tolist()
    by_name = {"median": float(np.median(self_seconds)), **{str(rank): float(self_seconds[rank]) for rank in ranks}}
    return {name: round(seconds, 6) for name, seconds in by_name.items()}


def ms(seconds: float) -> str:
    """Return seconds as milliseconds for people: `12.3 ms`."""
    return f"{seconds * 1000:.1f} ms"


NEXT_STEPS = {  # by cause; `pid` is that of the rank, `drain` says how to drain its host
    "compute_straggler": "On {host}: does another process use its GPU or cores (`nvidia-smi`, `top`)? `top -H -p "
    "{pid}` and `py-spy dump --pid {pid}` show the work that the other ranks do not have. Give the rank another host "
    "at the next start: if it is slow there too, its work is the reason. If the host is the reason: {drain}.",
    "input_straggler": "On {host}: `ps --ppid {pid} -o pid,stat,pcpu,wchan:32,cmd` shows the workers of its data "
    "loader. In state D they wait for storage (`iostat -x 2 3`). At 100 % CPU there are too few of them. Or its shard "
    "is larger than the others'.",
    "offload_straggler": "On {host}: `iostat -x 2 3` shows how long its disk needs for a read (`r_await`) and how "
    "busy it is (`%util`), and `dmesg -T | grep -i -E 'nvme|i/o error'` whether it fails. Compare with another host. "
    "`cat /proc/{pid}/io` twice shows what the rank reads. If that is more than the others read, give it fewer rows "
    "or more memory.",
    "host_pressure": "On {host}: `cat /proc/pressure/cpu /proc/pressure/memory /proc/pressure/io`, `top -b -n1 | "
    "head`: which other processes run there? `taskset -cp {pid}` shows the cores that the rank may use, `ps -eLo "
    "psr,pcpu,pid,comm --sort=-pcpu | head` what runs on each core: bind one of them elsewhere (`taskset`, Slurm's "
    "`--cpu-bind`, a cpuset), or `renice` the other program. `cat /sys/fs/cgroup$(cut -d: -f3 "
    "/proc/{pid}/cgroup)/cpu.stat`: is its share of cores too small?",
    "unknown": "The rank waits longer for data and also computes longer, as on a slow host or one whose resources are "
    "used up. On {host}: `top`, `vmstat 1 5`, `cat /proc/pressure/*`, `py-spy dump --pid {pid}`. Give the rank "
    "another host at the next start.",
}
