"""What a person reads of a comparison: the verdict first, then each quantity, then what to keep in mind."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from zmon.offline.compare.judge import CERTAINTY, SAMPLES, TRIMMED, WORTH_TELLING, Change
from zmon.offline.compare.series import Series

_STYLES = {"slower": "red", "faster": "green", "unknown": "yellow", "alike": "dim"}
_LEAST_PART = 0.005  # of a step: a smaller cause that is alike has no row


def report(before: Series, after: Series, changes: Sequence[Change]) -> RenderableType:
    """Everything about one comparison."""
    runs = {"A": before, "B": after}
    lines = [Text(verdict(changes), style="bold")]
    lines += [Text(line) for line in conditions(before, after)]
    lines += [Text(f"{letter} is {_of(run)}") for letter, run in runs.items()]
    lines += [Text(f"({letter}: {line})", style="dim") for letter, run in runs.items() for line in run.caveats]
    return Group(*lines, Text(""), _table(changes), *_why_unknown(changes))


def verdict(changes: Sequence[Change]) -> str:
    """In a line: the step, and what of it changed most."""
    step, *others = changes
    if step.half_width is None or step.change is None or step.verdict == "unknown":
        return f"whether a step takes longer is unknown: {step.reason}"
    by = f"{step.change:+.1%} ± {step.half_width:.1%}, {_amount(step, step.before)} → {_amount(step, step.after)}"
    if step.verdict == "alike":
        return f"steps are alike ({by}; told apart from {WORTH_TELLING:.1%} on)"
    causes = [c for c in others if c.unit == "s" and c.verdict == step.verdict]
    mostly = ", ".join(f"{c.name} {_difference(c)}" for c in causes[:3])
    return f"steps are {step.verdict}: {by}{f'; of it {mostly}' if mostly else ''}"


def conditions(before: Series, after: Series) -> list[str]:
    """In what the runs differ beside their time, so that it is no like for like."""
    lines = []
    if before.world_size != after.world_size:
        lines.append(f"they have {before.world_size} and {after.world_size} ranks")
    ours, theirs = before.samples_a_step, after.samples_a_step
    if ours and theirs and abs(ours - theirs) > WORTH_TELLING * ours:
        lines.append(f"a step has {ours:,} and {theirs:,} samples: {SAMPLES} is what compares")
    if before.causes and after.causes:
        for one, other in ((before, after), (after, before)):
            if only := sorted(one.causes.keys() - other.causes.keys()):
                lines.append(f"only {'A' if one is before else 'B'} tells {', '.join(only)}")
    return lines


def _table(changes: Sequence[Change]) -> Table:
    caption = (
        f"Without the longest and the shortest {TRIMMED:.0%} of the steps. ± is chance ({CERTAINTY:.0%}). "
        "A cause is part of the step."
    )
    if any(c.unit == "" for c in changes):
        caption += " What was reported: over the last half of the samples that both have seen."
    table = Table(caption=caption, caption_justify="left")
    for column in ("", "A", "B", "change", ""):
        table.add_column(column, justify="right" if column else "left", no_wrap=True)
    least = _LEAST_PART * (changes[0].before or 0.0)
    for c in changes:
        if c.unit == "s" and c.verdict == "alike" and max(c.before or 0.0, c.after or 0.0) < least:
            continue
        known = c.change is not None and c.half_width is not None
        change = f"{c.change:+.1%} ± {c.half_width:.1%}" if known else "unknown"
        table.add_row(
            Text(c.name),
            _amount(c, c.before),
            _amount(c, c.after),
            change,
            Text(c.verdict, style=_STYLES.get(c.verdict, "bold")),
        )
    return table


def _why_unknown(changes: Sequence[Change]) -> list[Text]:
    """A line a reason, for what stands below the step."""
    names: defaultdict[str, list[str]] = defaultdict(list)
    for change in changes[1:]:
        if change.reason:
            names[change.reason].append(change.name)
    return [Text(f"{', '.join(of)}: unknown, {reason}", style="dim") for reason, of in names.items()]


def _of(run: Series) -> str:
    return (
        f"{run.name}: {len(run.steps):,} whole steps of {run.world_size} {'rank' if run.world_size == 1 else 'ranks'}"
    )


def _amount(change: Change, value: float | None) -> str:
    if value is None:
        return "unknown"
    if change.unit == "s":
        return f"{1000 * value:.2f} ms"
    return f"{value:,.0f} /s" if change.unit else f"{value:.5g}"


def _difference(change: Change) -> str:
    return f"{1000 * ((change.after or 0.0) - (change.before or 0.0)):+.2f} ms"
