"""The terminal output of `zmon compare`: the result in one line, then caveats, then a table of all quantities."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from zmon.format import counted
from zmon.offline.compare.judge import CERTAINTY, MIN_CHANGE, SAMPLES, TRIMMED, Change
from zmon.offline.compare.series import Series

_STYLES = {"slower": "red", "faster": "green", "unknown": "yellow", "alike": "dim"}
_MIN_SHARE = 0.005  # share of a step: a smaller category whose result is alike has no row


def report(before: Series, after: Series, changes: Sequence[Change]) -> RenderableType:
    """Return the output for two runs. `changes` has the step time first."""
    runs = {"A": before, "B": after}
    lines = [Text(headline(changes), style="bold")]
    lines += [Text(line) for line in conditions(before, after)]
    lines += [
        Text(f"{letter} is {run.name}: {len(run.steps):,} complete steps of {counted(run.world_size, 'rank')}")
        for letter, run in runs.items()
    ]
    lines += [Text(f"({letter}: {line})", style="dim") for letter, run in runs.items() for line in run.caveats]
    return Group(*lines, Text(""), _table(changes), *_unknown(changes))


def headline(changes: Sequence[Change]) -> str:
    """Return the result in one line: how the step time changed, and which categories changed most."""
    step, *other_changes = changes
    if step.half_width is None or step.change is None or step.result == "unknown":
        return f"the change of the step time is unknown: {step.reason}"
    amount = f"{step.change:+.1%} ± {step.half_width:.1%}, {_amount(step, step.before)} → {_amount(step, step.after)}"
    if step.result == "alike":
        return f"steps are alike ({amount}; smaller changes than {MIN_CHANGE:.1%} are not reported)"
    categories = [c for c in other_changes if c.unit == "s" and c.result == step.result]
    mostly = ", ".join(f"{c.name} {1000 * ((c.after or 0.0) - (c.before or 0.0)):+.2f} ms" for c in categories[:3])
    return f"steps are {step.result}: {amount}{f'; mostly {mostly}' if mostly else ''}"


def conditions(before: Series, after: Series) -> list[str]:
    """Return the differences in ranks, batch size and time categories, which limit the comparison."""
    lines = []
    if before.world_size != after.world_size:
        lines.append(f"A has {before.world_size} ranks and B has {after.world_size}")
    batch_before, batch_after = before.samples_per_step, after.samples_per_step
    if batch_before and batch_after and abs(batch_before - batch_after) > MIN_CHANGE * batch_before:
        lines.append(f"a step of A has {batch_before:,} samples and a step of B has {batch_after:,}: compare {SAMPLES}")
    if before.causes and after.causes:
        for letter, run, other in (("A", before, after), ("B", after, before)):
            if only := sorted(run.causes.keys() - other.causes.keys()):
                lines.append(f"only {letter} has {', '.join(only)}")
    return lines


def _table(changes: Sequence[Change]) -> Table:
    caption = (
        f"The longest and the shortest {TRIMMED:.0%} of the steps are left out. ± is the {CERTAINTY:.0%} confidence "
        "interval. Categories are parts of the step."
    )
    if any(c.unit == "" for c in changes):
        caption += " Reported values are compared over the last half of the samples that both runs have processed."
    table = Table(caption=caption, caption_justify="left")
    for column in ("quantity", "A", "B", "change", "result"):
        table.add_column(column, justify="right" if column in ("A", "B", "change") else "left", no_wrap=True)
    min_seconds = _MIN_SHARE * (changes[0].before or 0.0)
    for c in changes:
        if c.unit == "s" and c.result == "alike" and max(c.before or 0.0, c.after or 0.0) < min_seconds:
            continue
        is_known = c.change is not None and c.half_width is not None
        change = f"{c.change:+.1%} ± {c.half_width:.1%}" if is_known else "unknown"
        result = Text(c.result, style=_STYLES.get(c.result, "bold"))
        table.add_row(Text(c.name), _amount(c, c.before), _amount(c, c.after), change, result)
    return table


def _unknown(changes: Sequence[Change]) -> list[Text]:
    """Return a line per reason with the quantities that are unknown for that reason, without the step time."""
    names: defaultdict[str, list[str]] = defaultdict(list)
    for change in changes[1:]:
        if change.reason:
            names[change.reason].append(change.name)
    return [Text(f"{', '.join(unknown)}: unknown, {reason}", style="dim") for reason, unknown in names.items()]


def _amount(change: Change, value: float | None) -> str:
    if value is None:
        return "unknown"
    if change.unit == "s":
        return f"{1000 * value:.2f} ms"
    return f"{value:,.0f} /s" if change.unit else f"{value:.5g}"
