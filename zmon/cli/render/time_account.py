"""The table of `zmon status --job`: where the wall-clock of a job went, with the cost in GPU-hours."""

from __future__ import annotations

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from zmon.cli.render import number_columns
from zmon.format import counted, duration
from zmon.schema.curve import IMBALANCE
from zmon.schema.job import RECORDED, JobView

_MIN_CHANGE = 0.03  # of a step: smaller differences are not reported
_MIN_WAITING = 0.05  # of the time: less waiting for the slowest rank is usual
_MIN_SHARE = 0.001  # of the time: all smaller categories have one row, which names them


def time_table(job: JobView) -> RenderableType:
    """Return a row per time category, over all launches of the job, then goodput, efficiency and ratio to the peak."""
    total = sum(job.time.values())
    if not total:
        return Text("where the time went is unknown so far")
    table = Table(
        "category", *number_columns("time", "share", "GPU-hours", no_wrap=True), title=f"where {duration(total)} went",
        title_justify="left", title_style="bold", box=None, padding=(0, 2, 0, 0),
    )  # fmt: skip
    small = {category: seconds for category, seconds in job.time.items() if seconds < _MIN_SHARE * total}
    for category, seconds in sorted(job.time.items() - small.items(), key=lambda item: -item[1]):
        _add_row(table, category, seconds, total, job.gpu_seconds.get(category))
    if small:
        gpu_seconds = [job.gpu_seconds[category] for category in small if category in job.gpu_seconds]
        names = ", ".join(sorted(small, key=lambda category: -small[category]))
        all_known = len(gpu_seconds) == len(small)
        _add_row(table, names, sum(small.values()), total, sum(gpu_seconds) if all_known else None)
    lines = (_goodput(job), _efficiency(job), _peak(job), _gpus(job), _samples(job), _expected(job))
    return Group(table, *(Text(line) for line in lines if line))


def _add_row(table: Table, category: str, seconds: float, total: float, gpu_seconds: float | None) -> None:
    cost = "unknown"
    if gpu_seconds is not None:
        hours = gpu_seconds / 3600
        cost = f"{hours:,.3g}" if hours < 100 else f"{hours:,.0f}"
    table.add_row(category, duration(seconds), f"{seconds / total:.1%}", cost)


def _goodput(job: JobView) -> str:
    """Return the goodput, and how much of the time ranks waited for the slowest one."""
    if job.goodput_ratio is None:
        return f"goodput: unknown{f', {job.goodput_unknown}' if job.goodput_unknown else ''}"
    waiting = job.time.get(IMBALANCE, 0.0) / sum(job.time.values())
    uneven = f"; {waiting:.1%} was waiting for the slowest rank (imbalance)" if waiting >= _MIN_WAITING else ""
    return f"goodput: {job.goodput_ratio:.1%} of the time was spent in steps whose work was kept{uneven}"


def _efficiency(job: JobView) -> str:
    """Return the scaling efficiency, and the one that the baseline has for this size."""
    efficiency = job.efficiency
    if efficiency is None:
        return f"efficiency: unknown{f', {job.efficiency_unknown}' if job.efficiency_unknown else ''}"
    base = efficiency.reference  # the smallest size of the baseline
    size = f"{counted(base.ranks, 'rank')} × {base.samples / base.ranks:,.0f} samples"
    recorded = "unknown" if efficiency.recorded is None else f"{efficiency.recorded:.1%}"
    return (
        f"efficiency: {efficiency.ratio:.1%}, {efficiency.scaling} scaling from {size} (baseline {efficiency.name}); "
        f"recorded at this size: {recorded}"
    )


def _peak(job: JobView) -> str:
    """Return the ratios to the peak of the devices, or why they are unknown; nothing from an older hub."""
    now = job.utilization
    if now is None:
        return f"peak: unknown, {job.utilization_unknown}" if job.utilization_unknown else ""
    parts = [f"{now.step_ratio:.1%} of the peak of its devices in steps ({now.source} operations)"]
    if now.wall_ratio is not None:
        parts.append(f"{now.wall_ratio:.1%} over wall-clock time")
    if now.memory_ratio is not None:
        parts.append(f"{now.memory_ratio:.1%} of the memory bandwidth")
    if now.roofline_ratio is not None:
        limit = "memory bandwidth limits" if now.memory_bound else "operations limit"
        parts.append(f"{now.roofline_ratio:.1%} of the roofline, which {limit}")
    left_out = f"; not counted: {now.uncounted}" if now.uncounted else ""
    return f"peak: {', '.join(parts)}{left_out}"


def _gpus(job: JobView) -> str:
    """Return how busy the GPUs are, or nothing if they do not measure it."""
    now = job.gpu_activity
    if now is None:
        return ""
    parts = [f"tensor cores are busy {now.tensor_ratio:.1%} of the time in steps"]
    if now.tensor_wall_ratio is not None:
        parts.append(f"{now.tensor_wall_ratio:.1%} of wall-clock time")
    if now.memory_ratio is not None:
        parts.append(f"{now.memory_ratio:.1%} of the memory bandwidth is used")
    return f"GPUs: {', '.join(parts)}"


def _samples(job: JobView) -> str:
    """Return the rate and what it is inferred from, or nothing if the job reports its samples."""
    if not job.samples_inference or job.samples_per_second is None:
        return ""
    return f"samples/s: {job.samples_per_second:,.0f} ({job.samples_inference})"


def _expected(job: JobView) -> str:
    """Return the expected and the current step time, or nothing if no step time is expected."""
    step = job.expected
    if step is None:
        return ""
    longer = [f"{part} {duration(more)} longer" for part, more in step.grown if more > _MIN_CHANGE * step.seconds]
    reasons = f": {', '.join(longer[:2])}" if longer and step.now_seconds > (1 + _MIN_CHANGE) * step.seconds else ""
    origin = f"recorded as {step.name}" if step.by == RECORDED else f"predicted from other sizes of {step.name}"
    return f"expected step time: {duration(step.seconds)} ({origin}), now {duration(step.now_seconds)}{reasons}"
