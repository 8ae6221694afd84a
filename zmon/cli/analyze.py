"""`zmon analyze`: run the detectors on a step log or a trace, written by zmon or by another tool."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import NoReturn

import click
from rich.console import Console

from zmon.cli.options import json_option
from zmon.cli.render import show
from zmon.cli.render.analysis import caveats, flight_document, flight_report, report, what_if_document, what_if_table
from zmon.cli.thresholds import detectors_option
from zmon.detectors import Detector
from zmon.errors import UsageError
from zmon.format import plain
from zmon.offline.analyze import Attempt, StepTable, is_conclusive, play, read
from zmon.offline.analyze.collectives import analyze_dumps
from zmon.offline.analyze.files import job_id_of
from zmon.offline.analyze.formats import Chosen, Format, choose, flight_recorder, kineto, straggler_analysis
from zmon.offline.analyze.pipeline import with_replayed_saving


@click.command()
@click.argument("steps", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option(
    "--format",
    "wanted",
    type=click.Choice([each.value for each in Format]),
    help="Format of the files. Default: the one that their content shows.",
)
@click.option("--job", metavar="ID", help="ID of the job to analyze. Required if the log has several jobs.")
@click.option("--attempt", type=int, help="Number of the attempt to analyze. Default: all attempts.")
@json_option
@detectors_option
def analyze(
    steps: tuple[Path, ...],
    wanted: str | None,
    job: str | None,
    attempt: int | None,
    as_json: bool,
    detectors: tuple[Detector, ...],
) -> None:
    """Analyze a step log of zmon, or a log or trace of another tool: which rank slowed or stopped the job, and why.

    STEPS are files, or directories of files: .parquet or .jsonl with the columns that zmon steps writes, one from each
    node (steps); Chrome traces of torch.profiler, one of each rank (kineto); dumps of torch's flight recorder, one of
    each rank (flight-recorder); operations of pipeline-parallel steps, with the columns of StragglerAnalysis by
    ByteDance-Seed (straggler-analysis).

    A step log of another tool needs at least the columns rank, step and duration. Without columns for exposed time or
    phases, zmon cannot tell which rank waits for which. The output has the findings, where the time went, and a heat
    map of the self time of the ranks; of flight records, the collectives that are stuck.

    Exit codes: 0 no findings, 1 findings, 2 misuse, 3 unknown (the files do not have enough data).
    """
    selected = choose(steps, Format(wanted) if wanted else None)
    files, form = selected.files, selected.format
    if form is not Format.STEPS and (job is not None or attempt is not None):
        raise UsageError("--job and --attempt select from a step log", f"the files are of the format {form}")
    if form is Format.FLIGHT_RECORDER:
        _analyze_dumps(selected, as_json)
    what_ifs = None
    if form is Format.STRAGGLER_ANALYSIS:
        trace = straggler_analysis.read(files)
        log, what_ifs = trace.steps, trace.what_ifs
    else:
        log = kineto.read(files) if form is Format.KINETO else read(files, job)
    log.notes = [plain(note) for note in (*selected.notes, *log.notes)]  # they repeat names of files
    attempts = [play(log, number, detectors) for number in log.attempts() if attempt in (None, number)]
    if not attempts:
        numbers = ", ".join(map(str, log.attempts()))
        raise click.UsageError(f"the log has no attempt {attempt}; its attempts are {numbers}.")
    if what_ifs is not None:
        for span in (span for replayed in attempts for span in replayed.spans):
            span.finding = with_replayed_saving(span.finding, what_ifs)
        extra = [what_if_table(what_ifs, trace.workers)]
        answer = {**document(log, attempts), "what_if": what_if_document(what_ifs, trace.workers)}
    else:
        answer, extra = document(log, attempts), []
    show(as_json, answer, report(log, attempts, Console().width, extra))
    sys.exit(1 if any(replayed.spans for replayed in attempts) else 0 if is_conclusive(log, attempts) else 3)


def _analyze_dumps(selected: Chosen, as_json: bool) -> NoReturn:
    dumps = flight_recorder.read(selected.files)
    notes = [*map(plain, (*selected.notes, *dumps.notes))]
    analysis = analyze_dumps(dumps.ranks, job_id_of(selected.files[0]), notes)
    show(as_json, flight_document(analysis), flight_report(analysis))
    sys.exit(1 if analysis.findings else 0 if analysis.conclusive else 3)


def document(log: StepTable, attempts: list[Attempt]) -> dict[str, object]:
    """Return what `--json` prints."""
    return {
        "schema": 1,
        "job_id": log.job_id,
        "caveats": caveats(log, attempts),
        "attempts": [
            {
                "attempt": attempt.number,
                "world_size": attempt.world_size,
                "ranks": attempt.ranks,
                "steps": attempt.job_state.time.num_steps,
                "seconds": attempt.job_state.time.total_seconds,
                "time": attempt.job_state.time.causes,
                "findings": [
                    {"first_step": s.first_step, "last_step": s.last_step, "finding": s.finding} for s in attempt.spans
                ],
            }
            for attempt in attempts
        ],
    }
