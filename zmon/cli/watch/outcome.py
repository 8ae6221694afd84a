"""Make the card, the report and the folder of a watch after the command has ended."""

from __future__ import annotations

import os
import shlex
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import msgspec

from zmon.cli.render.time_advice import Advice
from zmon.cli.render.verdict import VerdictCard, WatchedJob, main_job
from zmon.cli.watch import folder
from zmon.cli.watch.watched_command import UNWATCHED, WatchedCommand
from zmon.format import plain_lines
from zmon.hub.incidents.capsule_store import REPORT
from zmon.probe.run_check import isolating_option
from zmon.process import how_it_ended
from zmon.schema.aligned_step import AlignedStep
from zmon.schema.measures import NS
from zmon.schema.names import severity_order
from zmon.schema.steps import DURATION
from zmon.stats import quantile
from zmon.steplog import FOLDER, read_runs
from zmon.steplog.files import child_path

_MAX_INCIDENTS = 4  # in the report
_CATEGORY_PREFIXES = ("phase_", "exposed_")  # of the columns of a step log that add up to the step time


def unwatched_card(run: WatchedCommand, reason: Advice) -> VerdictCard:
    """Write the files of a command without a watched rank, and return the card."""
    card = replace(_card(run, ()), unwatched=reason)
    card = replace(card, failure=_set_exit_code(run, card))
    return replace(card, errors=_write_files(run, card, None, (), ()))


def outcome_card(
    run: WatchedCommand,
    watched: Iterable[WatchedJob],
    steps: Mapping[str, tuple[AlignedStep, ...]],
    data_dir: Path,
    host: str,
) -> VerdictCard:
    """Write the files, and return the card. `steps`: the recent ones, by job id."""
    log = data_dir / FOLDER
    jobs = [job if job.view.ranks_seen >= job.view.world_size else with_steps_of_one_rank(job, log) for job in watched]
    card = _card(run, jobs)
    job = main_job(card.jobs)
    if job is None:
        return unwatched_card(run, reason_unwatched(run.command, os.environ))
    place = None
    errors = []
    try:
        place = folder.new_folder(Path(), job, host)
        folder.keep_steps(data_dir, place)
        card = replace(card, folder=f"{place.name}/ has {folder.REPORT} and the step log")
    except OSError as error:
        errors.append(f"cannot keep the report and the steps in the working directory: {error.strerror}")
    card = replace(card, failure=_set_exit_code(run, card))
    errors += _write_files(run, card, place, steps[job.view.job_id], _pages(card))
    return replace(card, errors=tuple(errors))


def reason_unwatched(command: Sequence[str], env: Mapping[str, str]) -> Advice:
    """Return why no rank was seen, as far as the command shows it."""
    if env.get("ZMON_DISABLED", "") not in ("", "0"):
        return Advice("ZMON_DISABLED switches zmon off", "Unset ZMON_DISABLED.")
    name, option = Path(command[0]).name, isolating_option([*command])
    if option and name.startswith("python"):
        return Advice(f"{name} -{option} ignores PYTHONPATH, by which zmon reaches the job", f"Leave out -{option}.")
    return Advice(
        "none of its processes began to train with torch, or they ran where zmon does not reach: in a container, on "
        "another node, or with python -I or -E",
        "If it trains elsewhere, put `zmon watch --` before the command there.",
    )


def _set_exit_code(run: WatchedCommand, card: VerdictCard) -> str:
    """Set the exit code that --fail-on asks for. Return a line about it; "" if it is 0 or the command itself failed."""
    severity = run.options.fail_on
    if severity is None:
        return ""
    run.exit_code, reason = _exit_code(card, severity)
    return f"{run.exit_code}: {reason} (--fail-on {severity})" if reason and not run.child.status else ""


def _exit_code(card: VerdictCard, severity: str) -> tuple[int, str]:
    """Return the exit code with --fail-on `severity` if the command itself succeeded, and why it is not 0."""
    if card.unwatched:
        return UNWATCHED, "nothing was watched"
    worst = card.findings[0] if card.findings else None
    if worst and severity_order(worst.severity) >= severity_order(severity):
        return 1, f"{worst.cause} ({worst.severity}) opened"
    return 0, ""


def _card(run: WatchedCommand, jobs: Iterable[WatchedJob]) -> VerdictCard:
    """Return the card without what files and --fail-on add to it."""
    child = run.child
    return VerdictCard(
        plain_lines(shlex.join(run.command)),
        ending=how_it_ended(child.status or 0),
        seconds=child.ended - run.began,
        failed=bool(child.status) and not child.signals,
        signals=tuple(f"{sent.name} by {sent.sender}" for sent in child.signals),
        signalled=child.signals[0].time if child.signals else None,
        jobs=tuple(sorted(jobs, key=lambda job: job.began)),
        output=run.options.output,
    )


def _write_files(
    run: WatchedCommand, card: VerdictCard, place: Path | None, steps: Sequence[AlignedStep], pages: Sequence[str]
) -> tuple[str, ...]:
    """Write the report and the JSON where they are wanted. Return a line for each file that cannot be written."""
    errors = []
    reports = [path for path in (place and place / folder.REPORT, run.options.report) if path]
    text = folder.page(card, main_job(card.jobs), steps, pages) if reports else ""
    files = [(path, text.encode("utf-8", "replace")) for path in reports]
    if run.options.json:
        files.append((run.options.json, msgspec.json.encode(card)))
    for path, content in files:
        try:
            path.write_bytes(content)
        except OSError as error:
            errors.append(f"cannot write {path}: {error.strerror}")
    return tuple(errors)


def _pages(card: VerdictCard) -> tuple[str, ...]:
    """Return the pages of the incidents, the worst first."""
    folders = [Path(finding.capsule) for finding in card.findings if finding.capsule]
    paths = [capsule / REPORT for capsule in folders[:_MAX_INCIDENTS]]
    return tuple(path.read_text() for path in paths if path.is_file())


def with_steps_of_one_rank(job: WatchedJob, log: Path) -> WatchedJob:
    """Return the job with the step time, and the time by category, of its first watched rank. `log`: the step log.

    The hub aligns the steps of all ranks, so it knows no step of a job if some ranks are unwatched. The step log still
    has the steps of one rank; its collectives include the time that it waited for others.
    """
    runs, _ = read_runs(child_path(log, job.view.job_id))
    if not runs:
        return job
    last_attempt = max(run.run.attempt for run in runs)
    runs_of_launch = [run for run in runs if run.run.attempt == last_attempt]
    first = min(runs_of_launch, key=lambda run: (run.run.rank, -run.run.start))  # the newest of the lowest rank
    durations: list[float] = []  # of steps, in seconds
    time: defaultdict[str, float] = defaultdict(float)  # seconds by category
    for chunk in first.chunks():
        durations += (nanoseconds * NS for nanoseconds in chunk.steps.column(DURATION))
        for name in chunk.steps.columns:
            prefix = next((prefix for prefix in _CATEGORY_PREFIXES if name.startswith(prefix)), None)
            if prefix:
                time[name.removeprefix(prefix)] += sum(chunk.steps.column(name)) * NS
    view = replace(
        job.view, step_seconds=quantile(durations, 0.5), step_seconds_p95=quantile(durations, 0.95), time=dict(time)
    )
    return replace(job, view=view, of_rank=first.run.rank)
