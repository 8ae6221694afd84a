"""What a slow rank or a slow network does to a step, in numbers and in words. Pure; seconds."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

from zmon.schema.aligned_step import AlignedStep, Baseline

SHOWN = 8  # ranks in the evidence


def saved_seconds(step: AlignedStep, ranks: set[int]) -> float:
    """How much earlier the step would have been through without these."""
    others = max(own for rank, own in enumerate(step.self_seconds) if rank not in ranks)
    return max(max(step.self_seconds) - others, 0.0)


def late_by_phase(steps: Sequence[AlignedStep], rank: int) -> dict[str, float]:
    """How much longer in each phase than the median of the others this rank is."""
    names = {name for step in steps for name in step.phases}
    columns = {name: [step.phases[name] for step in steps if name in step.phases] for name in names}
    return {
        name: median(column[rank] - median(column[:rank] + column[rank + 1 :]) for column in columns[name])
        for name in sorted(names)
    }


def slowest(steps: Sequence[AlignedStep]) -> dict[str, float]:
    """What the slowest ranks take, and the middle one."""
    own = [median(column) for column in zip(*(step.self_seconds for step in steps), strict=True)]
    slowest = sorted(range(len(own)), key=lambda rank: -own[rank])[:SHOWN]
    return {"median": round(median(own), 6), **{str(rank): round(own[rank], 6) for rank in slowest}}


def held_up(steps: Sequence[AlignedStep], good: Baseline | None, grown_ratio: float, exposed_ratio: float) -> bool:
    """Whether in each third of the steps collectives take so much more of a good step, or so much of one."""
    third = len(steps) // 3
    least = min(took(steps[at : at + third], None)[0] for at in range(0, 3 * third, third))
    grown = good is not None and least - good.exposed_seconds >= grown_ratio * good.seconds
    return grown or least >= exposed_ratio * median(step.seconds for step in steps)


def took(steps: Sequence[AlignedStep], good: Baseline | None) -> tuple[float, float, float | None]:
    """Collectives, as the last to arrive saw them; the step; and the collectives while the job was well."""
    exposed = median(step.exposed_seconds for step in steps)
    return exposed, median(step.seconds for step in steps), good.exposed_seconds if good else None


def ms(seconds: float) -> str:
    """As people read it."""
    return f"{seconds * 1000:.1f} ms"


NEXT = {  # host, process or device
    "compute_straggler": "On {0}: does something else use its GPU or cores (`nvidia-smi`, `top`)? `top -H -p {1}` and "
    "`py-spy dump --pid {1}` show what it does and the others do not. Give the rank another host at the next start: "
    "slow there as well, it is its work.",
    "input_straggler": "On {0}: `ps --ppid {1} -o pid,stat,pcpu,wchan:32,cmd` shows its loader's workers: in D they "
    "wait for storage (`iostat -x 2 3`), at 100 % there are too few of them. Or its shard is larger than the others'.",
    "host_pressure": "On {0}: `cat /proc/pressure/cpu /proc/pressure/memory /proc/pressure/io`, `top -b -n1 | head`: "
    "who else is there? `cat /sys/fs/cgroup$(cut -d: -f3 /proc/{1}/cgroup)/cpu.stat`: is its share of cores too small?",
    "network_slow": "On {0}: `ethtool {1}` (speed), `ethtool -S {1}` (errors, pauses), `tc -s qdisc show dev {1}` (a "
    "shaper?), `sar -n DEV 2 3` (other traffic); then cable, switch port and the switch's own counters.",
    "unknown": "It waits for data longer and computes longer, as a starved or slow host does. On {0}: `top`, "
    "`vmstat 1 5`, `cat /proc/pressure/*`, `py-spy dump --pid {1}`; at the next start give the rank another host.",
}
