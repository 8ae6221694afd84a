"""The card of `zmon watch`: how a job ended and why, where its time went, and what to do next. Pure.

A card has at most 25 lines of 100 columns. What is not known is said as such: a job of which nothing was seen is never
called healthy.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from zmon.cli.render.status import culprit
from zmon.format import UNKNOWN, clock, counted, duration, listed, plain, sentence
from zmon.schema.curve import IMBALANCE
from zmon.schema.finding import Finding, worst_first
from zmon.schema.job import JobView
from zmon.schema.names import OPS, severity_order

WIDTH, MAX_LINES = 100, 25
_LABEL = 10  # columns of the names on the left
_BAR = WIDTH - _LABEL
_MIN_SHARE = 0.01  # of the time: smaller categories are no reason to act
_MAX_OTHERS = 4  # lines about further findings, and about further jobs
_TOGETHER = "\x1f"  # stands for a space at which no line is broken, until the line is made
_FILLS = "█▓▒░#=+"  # the time categories of the bar, the largest first


@dataclass(frozen=True, slots=True)
class Advice:
    """A fact and the step that follows from it."""

    what: str
    next_step: str


_PROFILE = "Profile one step on one rank (`torch.profiler`) to see which of its operations take the time."
_OVERLAP = (
    "Overlap it with the backward pass, send less (larger batch per rank, gradient accumulation, bfloat16), or use "
    "fewer hosts."
)
_ADVICE = {  # by time category; another one is a collective or an activity that a newer zmon knows
    "init": Advice(
        "from the start of a rank to its first step", "Start less often, or cache what the job reads before it trains."
    ),
    "data": Advice(
        "the training loop waits for its data",
        "Give the DataLoader more workers (`num_workers`), and move work out of `__getitem__`.",
    ),
    "h2d": Advice("copies to the device", "Pin the memory of the DataLoader and copy with `non_blocking=True`."),
    "eval": Advice("evaluation", "Evaluate less often, or on fewer samples."),
    "checkpoint": Advice("saving checkpoints", "Save less often, or asynchronously (`dcp.async_save`)."),
    "compile": Advice("compiling the model", "Keep shapes constant, and keep the cache of the compiler between runs."),
    "loader_start": Advice(
        "starting the workers of a DataLoader", "Set `persistent_workers=True`, so that they start once."
    ),
    "stall": Advice("nothing moved", "The finding about it says who the others waited for."),
    "restart": Advice(
        "work that was lost, and starting again", "Find the cause of the restarts first; save more often."
    ),
    IMBALANCE: Advice(
        "ranks wait for the slowest one", "Compare the work of the ranks: batch sizes, sequence lengths, hosts."
    ),
    "forward": Advice("the forward pass", _PROFILE),
    "backward": Advice("the backward pass", _PROFILE),
    "optimizer": Advice("the optimizer", "Use a fused or foreach optimizer (`fused=True`)."),
    "embedding": Advice("embedding lookups", _PROFILE),
    "other": Advice("code of the step outside of data, model and optimizer", _PROFILE),
    "unknown": Advice("zmon cannot say", ""),
}


@dataclass(frozen=True, slots=True)
class WatchedJob:
    """A job as it was seen last."""

    view: JobView
    findings: tuple[Finding, ...]  # all that opened, the newest first
    began: float  # unix seconds at which its first rank started
    steps: int  # finished by the rank that is ahead
    num_living: int  # ranks that were alive when watch ended
    edges: tuple[str, ...] = ()  # implementations of the hot path in its ranks
    of_rank: int | None = None  # step time and time categories are those of this rank alone; None: of all ranks


@dataclass(frozen=True, slots=True)
class VerdictCard:
    """Everything that the card says."""

    command: str
    ending: str  # of the command: `exit code 1`, `signal SIGKILL`
    seconds: float  # from its start to its end
    failed: bool = False  # it did not succeed, and no signal that watch received ended it
    signals: tuple[str, ...] = ()  # received for it: `SIGTERM by process 812 (timeout)`
    signalled: float | None = None  # unix seconds of the first one
    jobs: tuple[WatchedJob, ...] = ()  # by their start
    unwatched: Advice | None = None  # why no rank was seen
    failure: str = ""  # the exit code of watch, if it is not that of the command, and why
    errors: tuple[str, ...] = ()  # what zmon could not do
    folder: str = ""  # of the report and the step log; "": none was written
    output: str = ""  # the file that the command wrote to; "": it had the terminal

    @property
    def findings(self) -> tuple[Finding, ...]:
        """All findings, the worst first."""
        return tuple(worst_first(finding for job in self.jobs for finding in job.findings))


def card_lines(card: VerdictCard) -> list[str]:
    """Return the lines of a card."""
    job = main_job(card.jobs)
    rows, advice = [*_ended(card, job)], ""
    if card.unwatched:
        rows.append(("watched", f"nothing: {card.unwatched.what}"))
        advice = card.unwatched.next_step
    if job:
        fault = _fault(job, card.signalled)
        unexplained = card.failed and fault is None
        rows += [*_speed(job), *_time(job), *_costs(job.view), *_findings(job, fault)]
        rows += [*_others(card.jobs, job)]
        advice = "Read the end of the command's output." if unexplained else _next(job, fault)
    if advice:
        rows.append(("next", advice))
    rows += [("zmon", error) for error in card.errors]
    if card.output:
        rows.append(("output", card.output))
    if card.folder:
        rows.append(("folder", card.folder))
    name = job.view.job_id if job else plain(card.command)
    return _fitted(name, rows)


def finding_lines(finding: Finding, part: str = "", job_id: str = "") -> list[str]:
    """Return the block about a finding that has opened.

    `part`: which ranks are watched, if not all. `job_id`: its job, if there are several.
    """
    head = f"zmon: {finding.severity.upper()} {finding.cause}, {culprit(finding)}, since {clock(finding.onset)}"
    rows = [
        ("job", job_id),
        ("what", sentence(finding.summary)),
        ("next", _without_hub(finding.detail)),
        ("seen", part),
    ]
    return [head[:WIDTH], *_wrapped(rows, 4)]


def ranks_seen(view: JobView) -> str:
    """Return which part of a job is watched; "" if it is all of it."""
    if view.ranks_seen >= view.world_size:
        return ""
    return f"{view.ranks_seen} of {view.world_size} ranks, this node only"


def main_job(jobs: Sequence[WatchedJob]) -> WatchedJob | None:
    """Return the job that the card is about: the one with the worst finding, else the one with the most steps."""

    def importance(job: WatchedJob) -> tuple[int, int, float]:
        worst = max((severity_order(finding.severity) for finding in job.findings), default=0)
        return worst, job.steps, job.began

    return max(jobs, key=importance, default=None)


def _ended(card: VerdictCard, job: WatchedJob | None) -> Iterator[tuple[str, str]]:
    fault = _fault(job, card.signalled) if job else None
    why = f": {fault.summary}" if fault else ""
    if job and card.failed and not fault:
        finished = "the training had finished; " if job.view.state == "done" else ""
        why = f": {finished}zmon does not know why the command failed"
    sent = f", sent {listed(card.signals, 3)}" if card.signals else ""
    living = f". {counted(job.num_living, 'rank')} of it still live" if job and job.num_living else ""
    yield "ended", sentence(f"{card.ending} after {duration(card.seconds)}{sent}{why}{living}")
    if card.failure:
        yield "exit code", card.failure


def _fault(job: WatchedJob, signalled: float | None = None) -> Finding | None:
    """Return the finding about the end of the job, or about its stall; None if there is none.

    A stall that a signal ended, and no step, was the reason for the signal. `signalled`: unix seconds of the first one.
    """

    def lasted(finding: Finding) -> bool:
        ended_by_signal = signalled is not None and finding.onset < signalled <= (finding.resolved or signalled)
        return finding.resolved is None or (ended_by_signal and (finding.step or 0) > job.steps)

    faults = [finding for finding in job.findings if finding.is_stall and finding.severity != "info"]
    return next((finding for finding in faults if lasted(finding)), None)


def _speed(job: WatchedJob) -> Iterator[tuple[str, str]]:
    view = job.view
    ranks = ranks_seen(view) or f"{view.ranks_seen} of {view.world_size}"
    host = f" on {listed(view.hosts, 2)}" if view.hosts else ""
    edge = "" if "python" not in job.edges else "; the Python edge of the probe, because their Python is not zmon's"
    yield "ranks", f"{ranks}{host}{edge}"
    if not job.steps:
        yield "steps", "none finished"
        return
    step = "step time unknown"
    if view.step_seconds is not None:
        step = f"{duration(view.step_seconds)} (p50), {duration(view.step_seconds_p95)} (p95) each"
    rate = "" if view.samples_per_second is None else f"; {view.samples_per_second:,.0f} samples/s"
    inferred = f" ({view.samples_inference})" if rate and view.samples_inference else ""
    yield "steps", f"{job.steps:,}, {step}{rate}{inferred}"


def _time(job: WatchedJob) -> Iterator[tuple[str, str]]:
    """Yield the bar by category and its legend."""
    view = job.view
    total = sum(view.time.values())
    if not total:
        yield "time", f"where it went is {UNKNOWN}"
        return
    parts = _largest(view)
    bar, legend, end = "", [], 0.0
    for number, (category, seconds) in enumerate(parts):
        fill = _FILLS[number]
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
    total = sum(view.time.values())
    return sorted(
        ((name, seconds) for name, seconds in view.time.items() if seconds >= _MIN_SHARE * total),
        key=lambda item: -item[1],
    )[: len(_FILLS)]


def _costs(view: JobView) -> Iterator[tuple[str, str]]:
    total = sum(view.time.values())
    for number, (category, seconds) in enumerate(_largest(view)[:2]):
        what = _advice(category).what
        yield "" if number else "cost most", f"{category} {duration(seconds)} ({seconds / total:.0%}): {what}"


def _advice(category: str) -> Advice:
    if category in OPS:
        return Advice(f"the {category} that computation does not hide", _OVERLAP)
    return _ADVICE.get(category) or Advice(category, "")


def _findings(job: WatchedJob, fault: Finding | None) -> Iterator[tuple[str, str]]:
    """Yield a line for each finding but the fault that the card begins with."""
    lines = []
    for finding in worst_first(job.findings):
        over = "" if finding.resolved is None else f" (over after {duration(finding.resolved - finding.onset)})"
        if finding is not fault:
            lines.append(f"{finding.severity} {finding.cause}, {culprit(finding)}{over}")
    yield from _first("findings", lines)


def _others(jobs: Sequence[WatchedJob], main: WatchedJob) -> Iterator[tuple[str, str]]:
    """Yield a line for each job but the main one."""
    lines = []
    for job in jobs:
        fault = _fault(job)
        end = f"{fault.cause}, {culprit(fault)}" if fault else job.view.headline.line
        if job is not main:
            lines.append(f"{job.view.job_id}: {counted(job.steps, 'step')}, {end}")
    yield from _first("also ran", lines)


def _first(label: str, lines: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield the first lines, and the number of the others."""
    shown = [*lines[:_MAX_OTHERS], *([f"and {len(lines) - _MAX_OTHERS} more"] if len(lines) > _MAX_OTHERS else [])]
    yield from zip([label, *[""] * _MAX_OTHERS], shown, strict=False)


def _next(job: WatchedJob, fault: Finding | None) -> str:
    """Return what to do next: about the fault or the worst finding, else about what costs most."""
    finding = fault or next((f for f in worst_first(job.findings) if f.severity != "info"), None)
    if finding is not None:
        return _without_hub(finding.detail)
    if not job.steps:  # its start is no cost yet
        return "Look at the cards of the other nodes." if ranks_seen(job.view) else ""
    largest = _largest(job.view)
    return _advice(largest[0][0]).next_step if largest else ""


def _without_hub(text: str) -> str:
    """Return the advice of a finding where no hub answers: what that would show is in the report."""
    return text.replace("`zmon status --json`", "The report").replace(" in the finding", " in the report")


def _fitted(name: str, rows: Sequence[tuple[str, str]]) -> list[str]:
    """Return the lines of the rows, the long ones cut so that all fit on the card."""
    head = f"── zmon watch: {name} "[: WIDTH - 2]
    for most in range(6, 0, -1):
        lines = [head + "─" * (WIDTH - len(head)), *_wrapped(rows, most)]
        if len(lines) <= MAX_LINES:
            break
    return lines[:MAX_LINES]


def _wrapped(rows: Sequence[tuple[str, str]], most: int) -> list[str]:
    """Return the rows as labelled lines, each wrapped into at most so many."""
    lines = []
    for label, text in rows:
        first, later = f"{label:<{_LABEL}}", " " * _LABEL
        wrapped = textwrap.wrap(
            text, WIDTH, initial_indent=first, subsequent_indent=later, max_lines=most, placeholder=" …"
        )
        lines += [plain(line.replace(_TOGETHER, " ")) for line in wrapped]
    return lines
