"""Readers of traces of other tools: one module per format. The format is chosen, or guessed from the content."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from zmon.errors import UsageError
from zmon.format import counted, listed
from zmon.offline.analyze import files
from zmon.offline.analyze.formats import flight_recorder, kineto, straggler_analysis

__all__ = ["Format", "TraceFiles", "choose", "flight_recorder", "kineto", "straggler_analysis"]

MAX_FILES = 1 << 17
_BEGIN = 1 << 16  # bytes in which a Chrome trace shows that it is one


class Format(StrEnum):
    """The formats that `zmon analyze` reads."""

    STEPS = "steps"
    STRAGGLER_ANALYSIS = "straggler-analysis"
    FLIGHT_RECORDER = "flight-recorder"
    KINETO = "kineto"


@dataclass(frozen=True)
class TraceFiles:
    """The files of one format."""

    format: Format
    files: tuple[Path, ...]
    notes: tuple[str, ...] = ()  # a line if files of a directory are left out


def choose(paths: Sequence[Path], wanted: Format | None = None) -> TraceFiles:
    """Return the files of the wanted format, or of the one that their content shows. Raises UsageError."""
    given = [path for path in paths if not path.is_dir()]
    inside = [file for path in paths if path.is_dir() for file in _files_in(path)]
    if len(given) + len(inside) > MAX_FILES:
        raise UsageError(f"{len(given) + len(inside):,} files are too many", f"at most {MAX_FILES:,} are read")
    guesses = {file: _guess(file) for file in inside}
    if wanted is None:
        guesses |= {file: _guess(file) for file in given}
        wanted = _only_format(guesses, given)
    chosen = [file for file in inside if guesses[file] is wanted]
    if not given and not chosen:
        raise UsageError(f"no file of the format {wanted} in {', '.join(map(str, paths))}")
    left_out = [file.name for file in inside if guesses[file] is not wanted]
    note = f"left out {counted(len(left_out), 'file')} of another kind: {listed(left_out, 4)}"
    return TraceFiles(wanted, (*given, *chosen), (note,) if left_out else ())


def _files_in(folder: Path) -> list[Path]:
    try:
        return sorted(file for file in folder.iterdir() if file.is_file() and not file.name.startswith("."))
    except OSError as error:
        raise UsageError(f"cannot read {folder}", error.strerror or str(error)) from error


def _only_format(guesses: Mapping[Path, Format | None], given: Sequence[Path]) -> Format:
    """Return the one format of all files. Raises UsageError if they have several, or a given file has none."""
    formats = {guess for guess in guesses.values() if guess is not None}
    if len(formats) > 1:
        raise UsageError("the files have several formats", ", ".join(sorted(formats)), "Choose one with --format")
    unclear = next((path for path in given if guesses[path] is None), None)
    if unclear is not None or not formats:
        which = unclear or next(iter(guesses), "an empty directory")
        raise UsageError(f"cannot tell the format of {which}", "", f"Choose it with --format: {', '.join(Format)}")
    return formats.pop()


def _guess(path: Path) -> Format | None:
    """Return the format of one file; None if its content does not show it. Raises UsageError if it cannot be read."""
    if path.suffix == ".parquet":
        is_trace = files.columns(path) >= straggler_analysis.COLUMNS
        return Format.STRAGGLER_ANALYSIS if is_trace else Format.STEPS
    if path.suffix in (".jsonl", ".ndjson"):
        return Format.STEPS
    try:
        with files.unpacked(path) as file:
            begin = file.read(_BEGIN)
        if b'"traceEvents"' in begin or b'"schemaVersion"' in begin or begin.lstrip().startswith(b'[{"ph"'):
            return Format.KINETO
        if path.suffix != ".gz" and flight_recorder.is_dump(path):
            return Format.FLIGHT_RECORDER
    except OSError as error:
        raise UsageError(f"cannot read {path}", error.strerror or str(error)) from error
    first = begin.lstrip().partition(b"\n")[0]
    return Format.STEPS if path.suffix == ".json" and b'"rank"' in first and b'"step"' in first else None
