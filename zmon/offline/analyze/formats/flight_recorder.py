"""Reads the dumps that torch's flight recorder leaves on disk: one file per rank, pickled or as JSON.

torch writes them when a collective times out (TORCH_NCCL_DEBUG_INFO_TEMP_FILE names them, nccl_trace_rank_0, …), or
when a program asks for them (`_dump_nccl_trace`, `_dump_fr_trace`, `_dump_fr_trace_json`, or the worker server). The
rank is the number at the end of the file's name. A pickle may contain only dicts, lists, tuples, text and numbers; it
cannot name a class or a function, so that reading it runs no code of the file.
Source: torch/csrc/distributed/c10d/FlightRecorder.hpp and torch/distributed/flight_recorder.
"""

from __future__ import annotations

import io
import pickle
import pickletools
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, NoReturn

import msgspec

from zmon.errors import UsageError
from zmon.format import plain
from zmon.job.flight import Entry, flight_record
from zmon.schema.flight import FlightRecord
from zmon.schema.names import place_in_code

MAX_BYTES = 256 << 20  # 2,000 entries with stacks are about 4 MB
MAX_RANKS = 1 << 17
_RANK = re.compile(r"(?<!\d)(\d{1,6})$")  # a longer number is a time
_MEMO_OPCODES = ("PUT", "BINPUT", "LONG_BINPUT")
_SUFFIXES = (".json", ".pickle", ".pkl", ".bin")

_JobRanks = Annotated[list[Annotated[int, msgspec.Meta(ge=0, lt=MAX_RANKS)]], msgspec.Meta(max_length=MAX_RANKS)]


class Frame(msgspec.Struct):
    """One frame of the stack that issued an operation."""

    name: str = ""
    filename: str = ""
    line: int = 0

    def __post_init__(self) -> None:
        self.name, self.filename = plain(self.name), plain(self.filename)

    @property
    def is_of_job(self) -> bool:
        """True if the frame is neither of torch or another installed package nor of Python itself."""
        foreign = ("site-packages/", "dist-packages/", "/lib/python3", "<frozen")
        return self.filename.endswith(".py") and not any(part in self.filename for part in foreign)


class StoredEntry(Entry):
    """One operation of a rank, with the stack that issued it."""

    record_id: int = 0  # above 0 in the first entry if the recorder has dropped older ones
    frames: list[Frame] = msgspec.field(default_factory=list)  # the innermost one first; only in pickles

    @property
    def where(self) -> str:
        """The innermost frame of the job's own code, like `step() at train.py:88`; empty if it is unknown."""
        frame = next((frame for frame in self.frames if frame.is_of_job), None)
        return place_in_code(frame.name, Path(frame.filename).name, frame.line) if frame else ""


class _Group(msgspec.Struct):
    name: str = ""
    ranks: str | _JobRanks = ""  # torch writes the list as text

    def members(self) -> frozenset[int]:
        """Return the ranks; none if torch wrote a text that is not a list of ranks."""
        if isinstance(self.ranks, list):
            return frozenset(self.ranks)
        try:
            return frozenset(msgspec.json.decode(self.ranks, type=_JobRanks))
        except msgspec.DecodeError:
            return frozenset()


class _Dump(msgspec.Struct):
    version: str
    pg_config: dict[str, Any] = {}
    entries: list[StoredEntry] = []


@dataclass(frozen=True)
class RankDump:
    """The dump of one rank. Its entries are in order of time."""

    rank: int
    entries: tuple[StoredEntry, ...]
    groups: Mapping[str, frozenset[int]]  # name of a process group → its ranks, if the dump has them

    @property
    def record(self) -> FlightRecord:
        """The collectives in flight. Their ages are unknown: a dump does not say when it was written."""
        return flight_record(self.entries, None)


@dataclass
class Dumps:
    """The dumps of one job, by rank."""

    ranks: dict[int, RankDump] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)  # a line for each file that cannot be used


def read(paths: Sequence[Path]) -> Dumps:
    """Read the dumps in these files. Raises UsageError if none can be used, or if two are of the same rank."""
    dumps = Dumps()
    origin: dict[int, Path] = {}
    for path in paths:
        match = _RANK.search(path.name.removesuffix(path.suffix) if path.suffix in _SUFFIXES else path.name)
        if match is None:
            dumps.notes.append(f"{path} was not read: its name does not end in the number of a rank")
            continue
        rank = int(match[1])
        if rank in origin:
            what = f"{origin[rank]} and {path} are of the same rank"
            raise UsageError(what, "", "Analyze one set of dumps at a time")
        origin[rank] = path
        try:
            dumps.ranks[rank] = _dump(rank, _read(path))
        except ValueError as error:
            dumps.notes.append(f"{path} was not read: {str(error).splitlines()[0][:200]}")
    if not dumps.ranks:
        raise UsageError("no flight record can be read", dumps.notes[0] if dumps.notes else "there are no files")
    return dumps


def is_dump(path: Path) -> bool:
    """Return True if the file begins like a pickle, or is JSON of a flight record."""
    with path.open("rb") as file:
        begin = file.read(2)
        if len(begin) == 2 and begin[:1] == pickle.PROTO and begin[1] <= pickle.HIGHEST_PROTOCOL:
            return True
        if begin[:1] != b"{":
            return False
        rest = file.read(_size_to_read(path))
    try:
        keys = msgspec.json.decode(begin + rest, type=dict[str, msgspec.Raw]).keys()
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return False
    return "version" in keys and not keys.isdisjoint({"pg_config", "pg_status", "nccl_comm_state"})


def _size_to_read(path: Path) -> int:
    """Return how many bytes to read; Python allocates all of them at once. More than MAX_BYTES: the file is longer."""
    return min(path.stat().st_size, MAX_BYTES) + 1


def _read(path: Path) -> object:
    """Return the content of a file. Raises ValueError."""
    try:
        with path.open("rb") as file:
            data = file.read(_size_to_read(path))
    except OSError as error:
        raise ValueError(error.strerror or str(error)) from error
    if len(data) > MAX_BYTES:
        raise ValueError(f"it has more than {MAX_BYTES >> 20} MiB")
    if data.lstrip()[:1] == b"{":
        try:
            return msgspec.json.decode(data)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise ValueError(f"it is not JSON: {error}") from error
    try:
        _check_sizes(data)
        return _Unpickler(io.BytesIO(data)).load()
    except Exception as error:  # a damaged pickle may raise anything
        raise ValueError(f"it is not a flight record: {error or type(error).__name__}") from error


def _dump(rank: int, content: object) -> RankDump:
    """Return the dump of a rank from the content of its file. Raises ValueError."""
    try:
        dump = msgspec.convert(content, _Dump)
    except (msgspec.ValidationError, RecursionError) as error:
        raise ValueError(f"it is not a flight record: {error}") from error
    entries = sorted(dump.entries, key=lambda entry: entry.time_created_ns)
    groups = {}
    for key, raw in dump.pg_config.items():
        try:
            group = msgspec.convert(raw, _Group)
        except msgspec.ValidationError:
            continue
        if members := group.members():
            groups[plain(key)] = groups[plain(group.name or key)] = members
    return RankDump(rank, tuple(entries), groups)


def _check_sizes(data: bytes) -> None:
    """Raise UnpicklingError or ValueError if a number in the pickle is larger than the pickle itself.

    The unpickler allocates its memo for the largest index in the file, and a text before it reads the text. `genops`
    raises the ValueError, for a text that is longer than the rest of the file.
    """
    for opcode, argument, _ in pickletools.genops(data):
        if opcode.name in _MEMO_OPCODES and isinstance(argument, int) and argument > len(data):
            raise pickle.UnpicklingError("a number in it is larger than the file")


class _Unpickler(pickle.Unpickler):
    """An unpickler of plain data."""

    def find_class(self, module: str, name: str) -> NoReturn:
        raise pickle.UnpicklingError(f"it names {module}.{name}, and a flight record has plain data only")

    def persistent_load(self, pid: object) -> NoReturn:
        raise pickle.UnpicklingError("it refers to data outside of it")
