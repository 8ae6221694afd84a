"""The what-ifs of a pipeline trace in the output of `zmon analyze`: per stage, of the slowest workers, of all."""

from __future__ import annotations

from collections.abc import Mapping

from rich.console import RenderableType
from rich.table import Table

from zmon.format import UNKNOWN, listed
from zmon.offline.analyze.pipeline import PipelineReport, WhatIf, Worker

_MAX_NAMES = 4


def what_if_table(report: PipelineReport, workers: Mapping[int, Worker]) -> RenderableType:
    """Return a row per what-if."""
    table = Table(
        title=f"what-if: mean of {report.steps} replayed steps, {report.seconds:.3f} s as it is "
        f"({report.recorded_seconds:.3f} s with the pauses between operations)",
        title_justify="left",
    )
    for column in ("with usual durations", "step", "saves", "share of a step", "share of all unevenness"):
        table.add_column(column, justify="left" if column == "with usual durations" else "right")
    for name, what_if in _rows(report, workers):
        explained = UNKNOWN if what_if.explained_ratio is None else f"{what_if.explained_ratio:.0%}"
        saved = what_if.saved_seconds
        share = f"{saved / report.seconds:.1%}" if report.seconds else UNKNOWN
        table.add_row(name, f"{what_if.seconds:.3f} s", f"{saved:.3f} s", share, explained)
    table.caption = "usual: the mean of a computing operation over all workers and steps, the median of communication"
    return table


def what_if_document(report: PipelineReport, workers: Mapping[int, Worker]) -> dict[str, object]:
    """Return the what-ifs as JSON."""
    return {
        "steps": report.steps,
        "recorded_seconds": report.recorded_seconds,
        "seconds": report.seconds,
        "even": report.even,
        "stages": report.stages,
        "slowest": report.slowest,
        "workers": {str(rank): worker for rank, worker in sorted(workers.items())},
    }


def _rows(report: PipelineReport, workers: Mapping[int, Worker]) -> list[tuple[str, WhatIf]]:
    slowest = [workers[rank].name for rank in report.slowest.workers]
    kind = "the slowest worker" if len(slowest) == 1 else f"the {len(slowest)} slowest workers"
    return [
        ("all workers", report.even),
        *((f"stage {what_if.stage}", what_if) for what_if in report.stages),
        (f"{kind}: {listed(slowest, _MAX_NAMES)}", report.slowest),
    ]
