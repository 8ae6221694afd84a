"""Where the wall-clock of a job went, at the terminal: the largest cause first, what it cost in GPU-hours beside it."""

from __future__ import annotations

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from zmon.format import duration
from zmon.schema.expected import RECORDED
from zmon.schema.job import JobView

_WORTH = 0.03  # of a step: less is not named
_LEAST_SHARE = 0.001  # of a row; the others are one together


def time_table(job: JobView) -> RenderableType:
    """A row a cause, over all starts of the job; goodput below."""
    total = sum(job.time.values())
    if not total:
        return Text("where its time went is not known yet")
    table = Table(
        title=f"where {duration(total)} went", title_justify="left", title_style="bold", box=None, padding=(0, 2, 0, 0)
    )
    for head in ("cause", "time", "share", "GPU-hours"):
        table.add_column(head, no_wrap=True, justify="left" if head == "cause" else "right")
    small = {cause: seconds for cause, seconds in job.time.items() if seconds < _LEAST_SHARE * total}
    for cause, seconds in sorted(job.time.items() - small.items(), key=lambda item: -item[1]):
        _add(table, cause, seconds, total, job.gpu_seconds.get(cause))
    if small:
        hours = [job.gpu_seconds[cause] for cause in small if cause in job.gpu_seconds]
        _add(table, f"{len(small)} more", sum(small.values()), total, sum(hours) if len(hours) == len(small) else None)
    return Group(table, Text(_goodput(job)), Text(_efficiency(job)), *_expected(job))


def _add(table: Table, cause: str, seconds: float, total: float, gpu_seconds: float | None) -> None:
    hours = "unknown" if gpu_seconds is None else f"{gpu_seconds / 3600:,.3g}"
    table.add_row(cause, duration(seconds), f"{seconds / total:.1%}", hours)


def _goodput(job: JobView) -> str:
    if job.goodput_ratio is None:
        return f"goodput: unknown{f', {job.goodput_unknown}' if job.goodput_unknown else ''}"
    return f"goodput: {job.goodput_ratio:.1%} of it were steps that were kept"


def _efficiency(job: JobView) -> str:
    found = job.efficiency
    if found is None:
        return f"efficiency: unknown{f', {job.efficiency_unknown}' if job.efficiency_unknown else ''}"
    of = found.reference
    each = (
        f"{of.ranks} rank{'s' if of.ranks > 1 else ''} × {of.samples / of.ranks:,.0f} samples, recorded of {found.name}"
    )
    known = "nobody recorded this size" if found.recorded is None else f"{found.recorded:.1%} was recorded at this size"
    return f"efficiency: {found.ratio:.1%}, {found.scaling} scaling from {each}; {known}"


def _expected(job: JobView) -> list[Text]:
    """Where it is slower than it should be. Nothing where nobody can tell: efficiency has said why, mostly."""
    found = job.expected
    if found is None:
        return []
    longer = [f"{part} {duration(more)} longer" for part, more in found.grown if more > _WORTH * found.seconds]
    why = f": {', '.join(longer[:2])}" if longer and found.now_seconds > (1 + _WORTH) * found.seconds else ""
    known = f"recorded of {found.name}" if found.by == RECORDED else f"predicted from other sizes of {found.name}"
    return [
        Text(f"a step should take {duration(found.seconds)} ({known}) and takes {duration(found.now_seconds)}{why}")
    ]
