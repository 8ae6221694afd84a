"""Renders the results as the Markdown report that docs/gpu.md keeps. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

from bench.gpu_check.machine import Machine
from bench.gpu_check.result import NOT_CHECKED, OUTCOMES, Result
from zmon.format import duration

_HEADS = ("check", "setting", "verdict", "figure", "compared with", "note")
_NOT_CHECKED_HEADS = ("not checked", "settings", "figure", "reason")


def report(machine: Machine, results: Mapping[str, Sequence[Result]], date: str, seconds: float) -> Iterator[str]:
    """Yield the lines of the report: summary, machine, a table for each check by its title, what was not checked."""
    yield f"{date}, {duration(seconds)}: {summary(result for table in results.values() for result in table)}."
    yield ""
    yield from _table(("machine", ""), _facts(machine))
    for title, table in results.items():
        if checked := [result for result in table if result.outcome != NOT_CHECKED]:
            yield f"### {title}"
            yield ""
            yield from _table(_HEADS, map(_cells, checked))
    missing = [result for table in results.values() for result in table if result.outcome == NOT_CHECKED]
    if missing:
        yield "### Not checked"
        yield ""
        yield from _table(_NOT_CHECKED_HEADS, _missing_rows(missing))


def summary(results: Iterable[Result]) -> str:
    """Return the number of results with each outcome: `12 passed, 1 failed, 3 measured, 2 not checked`."""
    counts = Counter(result.outcome for result in results)
    return ", ".join(f"{counts[outcome]} {outcome}" for outcome in OUTCOMES)


def line(result: Result) -> str:
    """Return a result as one line of progress."""
    parts = (f"({result.setting})" if result.setting else "", figure(result))
    compared = f"compared with {result.compared_with}" if result.compared_with else ""
    details = "; ".join(filter(None, (" ".join(filter(None, parts)), compared, result.note)))
    return f"{result.outcome:<11}  {result.what} {details}".rstrip()


def figure(result: Result) -> str:
    """Return the figure with its unit; empty if there is none."""
    if result.figure is None:
        return ""
    return f"{number(result.figure)} {result.unit}".rstrip()


def number(figure: float | str) -> str:
    """Return a figure with four digits, and with all digits before its point."""
    if isinstance(figure, str):
        return figure
    return f"{figure:,.0f}" if abs(figure) >= 1000 else f"{figure:.4g}"


def _cells(result: Result) -> Iterator[str]:
    yield from (result.what, result.setting, result.outcome, figure(result), result.compared_with, result.note)


def _missing_rows(missing: Iterable[Result]) -> Iterator[tuple[str, ...]]:
    """Yield a row for each subject that was not checked and each reason, with the settings in which it applied."""
    settings: dict[tuple[str, str, str], list[str]] = {}
    for result in missing:
        settings.setdefault((result.what, figure(result), result.note), []).append(result.setting)
    for (what, shown, note), names in settings.items():
        yield what, "; ".join(filter(None, names)), shown, note


def _facts(machine: Machine) -> Iterator[tuple[str, str]]:
    for index, device in enumerate(machine.devices):
        yield f"GPU {index}", f"{device.name}, compute capability {device.capability}"
    if machine.no_gpu_reason:
        yield "GPU", machine.no_gpu_reason
    yield "driver", machine.driver or f"unknown: {machine.smi_error}"
    torch = machine.torch
    yield "torch, CUDA, NCCL", ", ".join((torch.torch, torch.cuda or "none", torch.nccl or "none"))
    yield "Python, processors", f"{machine.python}, {machine.num_processors}"


def _table(heads: Sequence[str], rows: Iterable[Iterable[str]]) -> Iterator[str]:
    yield _row(heads)
    yield "|" + "---|" * len(heads)
    for row in rows:
        yield _row(row)
    yield ""


def _row(cells: Iterable[str]) -> str:
    """Return one line of a table; a cell is one line without bars."""
    return "| " + " | ".join(" ".join(cell.split()).replace("|", "\\|") for cell in cells) + " |"
