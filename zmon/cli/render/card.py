"""The card of `zmon watch`: how a job ended and why, where its time went, and what to do next. Pure.

A card has at most 25 lines of 100 columns. Unknown is shown as unknown: a job without a watched rank is never called
healthy.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence

from zmon.cli.render.status import culprit
from zmon.cli.render.time_advice import time_advice
from zmon.cli.render.verdict import VerdictCard, WatchedJob, fault_of, main_job, watched_part
from zmon.format import UNKNOWN, clock, counted, duration, listed, plain, sentence
from zmon.schema.finding import Finding, worst_first
from zmon.schema.job import JobView

WIDTH, MAX_LINES = 100, 25
_LABEL = 10  # columns of the names on the left
_BAR = WIDTH - _LABEL
_MIN_SHARE = 0.01  # of the time: smaller categories are no reason to act
_MAX_OTHERS = 4  # lines about further findings, and about further jobs
_TOGETHER = "\x1f"  # in place of a space at which no line may be broken, until the lines are wrapped
# What to do about a frozen rank once its process is gone. The finding says how to let the process go on.
_AFTER_FREEZE = (
    "The process has ended. If a signal had stopped it, find out who sent the signal: a person, a debugger, or a "
    "scheduler that suspends jobs. If it slept in the kernel, `dmesg -T | tail -50` on its host may show the reason."
)
_FILLS = "█▓▒░#=+"  # the time categories of the bar, the largest first

Row = tuple[str, str]  # label and text


def card_lines(card: VerdictCard) -> list[str]:
    job = main_job(card.jobs)
    rows = [*_ending(card, job)]
    advice = ""
    if card.unwatched:
        rows.append(("watched", f"nothing: {card.unwatched.what}"))
        advice = card.unwatched.next_step
    if job:
        fault = fault_of(job, card.signalled)
        unexplained = card.failed and fault is None and not job.cancelled
        rows += [*_speed(job), *_time(job), *_costs(job.view), *_findings(job, fault)]
        rows += [*_other_jobs(card.jobs, job)]
        advice = "Read the end of the command's output." if unexplained else _next(job, fault)
    if advice:
        rows.append(("next", advice))
    rows += [("zmon", error) for error in card.errors]
    if card.output:
        rows.append(("output", card.output))
    if card.folder:
        rows.append(("folder", card.folder))
    name = job.view.job_id if job else plain(card.command)
    return _fit_on_card(name, rows)


def finding_lines(finding: Finding, part: str = "", job_id: str = "") -> list[str]:
    """Return the block about a finding that has opened.

    `part`: which ranks are watched, if not all. `job_id`: its job, if there are several.
    """
    head = f"zmon: {finding.severity.upper()} {finding.cause}, {culprit(finding)}, since {clock(finding.onset)}"
    next_step = _without_hub(finding.detail)
    rows = [("job", job_id), ("what", sentence(finding.summary)), ("next", next_step), ("seen", part)]
    return [head[:WIDTH], *_wrap_rows(rows, max_lines=4)]


def _ending(card: VerdictCard, job: WatchedJob | None) -> Iterator[Row]:
    """Yield how the command ended and why, and the exit code of watch if it is another one."""
    fault = fault_of(job, card.signalled) if job else None
    why = f": {fault.summary}" if fault else ""
    if job and card.failed and not fault:
        finished = "the training had finished; " if job.view.state == "done" else ""
        why = f": {finished}{job.cancelled or 'zmon does not know why the command failed'}"
    sent = f", sent {listed(card.signals, 3)}" if card.signals else ""
    living = f". {counted(job.num_living, 'rank')} of it still live" if job and job.num_living else ""
    yield "ended", sentence(f"{card.ending} after {duration(card.seconds)}{sent}{why}{living}")
    if card.failure:
        yield "exit code", card.failure


def _speed(job: WatchedJob) -> Iterator[Row]:
    """Yield which ranks were watched, and how fast their steps were."""
    view = job.view
    ranks = watched_part(view) or f"{view.ranks_seen} of {view.world_size}"
    hosts = f" on {listed(view.hosts, 2)}" if view.hosts else ""
    uncompared = f"; {view.uncompared}" if view.uncompared else ""
    edge = "; the Python edge of the probe, because their Python is not zmon's" if "python" in job.edges else ""
    yield "ranks", f"{ranks}{hosts}{uncompared}{edge}"
    if not job.steps:
        unseen = (
            "; if it trained, its updates are not torch.optim's: call `zmon.step()`" if view.state == "done" else ""
        )
        yield "steps", f"none finished{unseen}"
        return
    step = "step time unknown"
    if view.step_seconds is not None:
        step = f"{duration(view.step_seconds)} (p50), {duration(view.step_seconds_p95)} (p95) each"
    rate = "" if view.samples_per_second is None else f"; {view.samples_per_second:,.0f} samples/s"
    inferred = f" ({view.samples_inference})" if rate and view.samples_inference else ""
    yield "steps", f"{job.steps:,}, {step}{rate}{inferred}"


def _time(job: WatchedJob) -> Iterator[Row]:
    """Yield the bar by category and its legend."""
    view = job.view
    total = sum(view.time.values())
    if not total:
        yield "time", f"where it went is {UNKNOWN}"
        return
    bar = ""
    legend = []
    end = 0.0  # of the category in the bar, in seconds
    for fill, (category, seconds) in zip(_FILLS, _largest(view), strict=False):
        end += seconds
        bar += fill * (round(end / total * _BAR) - len(bar))
        legend.append(f"{fill} {category} {seconds / total:.0%}")
    rest = total - end
    if rest >= _MIN_SHARE * total:
        legend.append(f"· rest {rest / total:.0%}")
    if job.of_rank is not None:
        legend.append(f"of the steps of rank {job.of_rank}")
    yield "time", bar + "·" * (_BAR - len(bar))
    yield "", "  ".join(part.replace(" ", _TOGETHER) for part in legend)


def _largest(view: JobView) -> list[tuple[str, float]]:
    """Return the largest time categories with their seconds, as many as the bar has fills for."""
    total = sum(view.time.values())
    return sorted(
        ((name, seconds) for name, seconds in view.time.items() if seconds >= _MIN_SHARE * total),
        key=lambda item: -item[1],
    )[: len(_FILLS)]


def _costs(view: JobView) -> Iterator[Row]:
    total = sum(view.time.values())
    for label, (category, seconds) in zip(("cost most", ""), _largest(view), strict=False):
        yield label, f"{category} {duration(seconds)} ({seconds / total:.0%}): {time_advice(category).what}"


def _findings(job: WatchedJob, fault: Finding | None) -> Iterator[Row]:
    """Yield a line for each finding but the fault that the card begins with."""
    lines = []
    for finding in (finding for finding in worst_first(job.findings) if finding is not fault):
        over = "" if finding.resolved is None else f" (over after {duration(finding.resolved - finding.onset)})"
        lines.append(f"{finding.severity} {finding.cause}, {culprit(finding)}{over}")
    yield from _label_first("findings", lines)


def _other_jobs(jobs: Sequence[WatchedJob], main: WatchedJob) -> Iterator[Row]:
    """Yield a line for each job but the main one."""
    lines = []
    for job in (job for job in jobs if job is not main):
        fault = fault_of(job)
        end = f"{fault.cause}, {culprit(fault)}" if fault else job.view.headline.line
        lines.append(f"{job.view.job_id}: {counted(job.steps, 'step')}, {end}")
    yield from _label_first("also ran", lines)


def _label_first(label: str, lines: Sequence[str]) -> Iterator[Row]:
    """Yield the first lines, and how many more there are. The first row has the label."""
    shown = [*lines[:_MAX_OTHERS]]
    if len(lines) > _MAX_OTHERS:
        shown.append(f"and {len(lines) - _MAX_OTHERS} more")
    yield from ((label if index == 0 else "", line) for index, line in enumerate(shown))


def _next(job: WatchedJob, fault: Finding | None) -> str:
    """Return what to do next: about the fault or the worst finding, else about what costs most."""
    finding = fault or next((f for f in worst_first(job.findings) if f.severity != "info"), None)
    if finding is not None:
        is_gone = finding.cause == "rank_frozen" and not job.num_living
        return _AFTER_FREEZE if is_gone else _without_hub(finding.detail)
    if not job.steps:  # the time that it took to start is no cost to reduce
        return "Look at the cards of the other nodes." if watched_part(job.view) else ""
    largest = _largest(job.view)
    return time_advice(largest[0][0]).next_step if largest else ""


def _without_hub(text: str) -> str:
    """Return the advice of a finding for a user of watch, who has the report but no hub to ask."""
    return text.replace("`zmon status --json`", "The report").replace(" in the finding", " in the report")


def _fit_on_card(name: str, rows: Sequence[Row]) -> list[str]:
    """Return the lines of the rows, the long ones cut so that all fit on the card."""
    head = f"── zmon watch: {name} "[: WIDTH - 2]
    for max_lines in range(6, 0, -1):  # of each row
        lines = [head + "─" * (WIDTH - len(head)), *_wrap_rows(rows, max_lines)]
        if len(lines) <= MAX_LINES:
            break
    return lines[:MAX_LINES]


def _wrap_rows(rows: Sequence[Row], max_lines: int) -> list[str]:
    """Return the rows as labelled lines. A row that needs more than `max_lines` lines is cut."""
    lines = []
    for label, text in rows:
        wrap = textwrap.TextWrapper(WIDTH, f"{label:<{_LABEL}}", " " * _LABEL, max_lines=max_lines, placeholder=" …")
        lines += [plain(line.replace(_TOGETHER, " ")) for line in wrap.wrap(text)]
    return lines
