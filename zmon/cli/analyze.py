"""`zmon analyze`: run the detectors on a step log or a trace, written by zmon or by another tool."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

import click
from rich.console import Console

from zmon.cli.options import json_option
from zmon.cli.render import show
from zmon.cli.render.analysis import report, steps_document, what_if_table
from zmon.cli.render.flight_records import flight_document, flight_report
from zmon.cli.thresholds import detectors_option
from zmon.detectors import Detector
from zmon.errors import UsageError
from zmon.format import plain
from zmon.offline.analyze import StepTable, is_conclusive, play, read
from zmon.offline.analyze.collectives import analyze_dumps
from zmon.offline.analyze.files import job_id_of
from zmon.offline.analyze.formats import Format, TraceFiles, choose, flight_recorder, kineto, straggler_analysis
from zmon.offline.analyze.formats.straggler_analysis import Trace
from zmon.offline.analyze.pipeline import with_replayed_saving


@click.command()
@click.argument("steps", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option(
    "--format",
    "format_name",
    type=click.Choice([file_format.value for file_format in Format]),
    help="Format of the files. Default: the format that their content shows.",
)
@click.option("--job", metavar="ID", help="ID of the job to analyze. Required if the log has several jobs.")
@click.option("--attempt", type=int, help="Number of the attempt to analyze. Default: all attempts.")
@json_option
@detectors_option
def analyze(
    steps: tuple[Path, ...],
    format_name: str | None,
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
    selected = choose(steps, Format(format_name) if format_name else None)
    files = selected.files
    if selected.format is not Format.STEPS and (job is not None or attempt is not None):
        raise UsageError("--job and --attempt select from a step log", f"the files are of the format {selected.format}")
    match selected.format:
        case Format.FLIGHT_RECORDER:
            exit_code = _analyze_flight_records(selected, as_json)
        case Format.STRAGGLER_ANALYSIS:
            trace = straggler_analysis.read(files)
            exit_code = _analyze_steps(trace.steps, selected.notes, as_json, detectors, trace=trace)
        case Format.KINETO:
            exit_code = _analyze_steps(kineto.read(files), selected.notes, as_json, detectors)
        case Format.STEPS:
            exit_code = _analyze_steps(read(files, job), selected.notes, as_json, detectors, attempt=attempt)
    sys.exit(exit_code)


def _analyze_flight_records(selected: TraceFiles, as_json: bool) -> int:
    """Print the collectives that are stuck. Return the exit code."""
    dumps = flight_recorder.read(selected.files)
    notes = [*map(plain, (*selected.notes, *dumps.notes))]
    analysis = analyze_dumps(dumps.ranks, job_id_of(selected.files[0]), notes)
    show(as_json, flight_document(analysis), flight_report(analysis))
    return _exit_code(has_findings=bool(analysis.findings), is_conclusive=analysis.conclusive)


def _analyze_steps(
    log: StepTable,
    notes: Sequence[str],
    as_json: bool,
    detectors: Sequence[Detector],
    *,
    attempt: int | None = None,
    trace: Trace | None = None,
) -> int:
    """Print the findings of a step log, of all attempts if `attempt` is None. Return the exit code.

    `trace`: the pipeline trace that the log is from. If it can be replayed, its what-ifs are printed too. Raises
    click.UsageError if the log has no such attempt.
    """
    log.notes = [plain(note) for note in (*notes, *log.notes)]  # names of files in them may have control characters
    attempts = [play(log, number, detectors) for number in log.attempts() if attempt in (None, number)]
    if not attempts:
        numbers = ", ".join(map(str, log.attempts()))
        raise click.UsageError(f"the log has no attempt {attempt}; its attempts are {numbers}.")
    spans = [span for replayed in attempts for span in replayed.spans]
    what_if_document = {}
    tables = []
    if trace is not None and trace.what_ifs is not None:
        for span in spans:
            span.finding = with_replayed_saving(span.finding, trace.what_ifs)
        workers = {str(rank): worker for rank, worker in sorted(trace.workers.items())}
        what_if_document = {"what_if": {**vars(trace.what_ifs), "workers": workers}}
        tables = [what_if_table(trace.what_ifs, trace.workers)]
    document = {**steps_document(log, attempts), **what_if_document}
    show(as_json, document, report(log, attempts, Console().width, tables))
    return _exit_code(has_findings=bool(spans), is_conclusive=is_conclusive(log, attempts))


def _exit_code(*, has_findings: bool, is_conclusive: bool) -> int:
    """Return the exit code of the command, as its help lists them."""
    if has_findings:
        return 1
    return 0 if is_conclusive else 3
