"""Run a framework's job under `zmon watch`, with or without a frozen rank, and read the boxes of its ranks."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import groupby, pairwise
from pathlib import Path
from typing import Any

import msgspec
import psutil

from tests.boxes import Totals, read_totals
from tests.frameworks.table import Row
from tests.places import REPOSITORY
from zmon.box import layout, ring
from zmon.box.reader import BoxReader, Identity
from zmon.errors import ZmonError
from zmon.job.flight import FlightDump
from zmon.schema.names import ACTIVITIES

RUN_SECONDS = 420.0  # a job takes 10 to 60 s; a compiler, or a busy machine, several times that
LOOK_SECONDS = 0.02  # between two looks at the boxes or at the messages of zmon
NUM_RANKS = 2
FROZEN_RANK = 1
FREEZE_STEP = 120  # about half-way, after the evaluation and the checkpoint of every job
NAME_SECONDS = 60.0  # the frozen rank runs on after this time, even if zmon has not named it
ENVIRONMENT = {
    "OMP_NUM_THREADS": "1",
    "GLOO_SOCKET_IFNAME": "lo",
    "TORCH_FR_BUFFER_SIZE": "100000",  # all collectives of the job
    "HF_HUB_OFFLINE": "1",
    "TOKENIZERS_PARALLELISM": "false",
}


@dataclass(frozen=True)
class WatchedRank:
    """The content of a rank's box after its end."""

    identity: Identity
    totals: Totals
    stays: Counter[str]  # how often the rank entered each activity
    activity: str
    report: dict[str, float]


@dataclass(frozen=True)
class Run:
    """One run of a job, with the records of zmon, of the job and of torch."""

    exit_code: int
    errors: str  # what the command and zmon wrote to stderr
    card: dict[str, Any]  # what `zmon watch --json` wrote
    watched: list[WatchedRank]
    counted: dict[int, dict[str, Any]]  # the counts of the job itself, by rank
    flights: dict[int, FlightDump]  # the flight records of torch, by rank
    stopped: bool = False  # a rank was frozen
    named_seconds: float | None = None  # from the freeze until zmon said `rank_frozen`


class NoRun(Exception):
    """A job did not end, or left no counts. The message appears in the table."""


def run(row: Row, programs: Path, folder: Path, freeze: bool = False) -> Run:
    """Run a job until its end. With `freeze`, a rank is stopped half-way until zmon names it. Raises NoRun."""
    folder.mkdir(parents=True)
    boxes, out = folder / "boxes", folder / "out"
    boxes.mkdir()
    out.mkdir()
    launcher = [word.format(bin=programs) for word in row.launcher]
    script = REPOSITORY / "tests/frameworks/jobs" / f"{row.script}.py"
    job = [*launcher, str(script), str(out), *row.arguments]
    command = [sys.executable, "-m", "zmon", "watch", "--json", str(folder / "card.json"), "--", *job]
    env = {name: value for name, value in os.environ.items() if not name.startswith("ZMON_")}
    env |= ENVIRONMENT | dict(row.env) | {"ZMON_BOX_DIR": str(boxes), "PYTHONPATH": str(REPOSITORY)}
    readers: dict[Path, BoxReader] = {}
    stopped, named_seconds = False, None
    with (folder / "stdout").open("wb") as stdout, (folder / "stderr").open("wb") as stderr:
        process = subprocess.Popen(
            command, cwd=folder, env=env, stdin=subprocess.DEVNULL, stdout=stdout, stderr=stderr
        )  # fmt: skip
    try:
        deadline = time.monotonic() + RUN_SECONDS
        while process.poll() is None:
            if time.monotonic() > deadline:
                raise NoRun(f"it did not end in {RUN_SECONDS:.0f} s")
            _open_new(boxes, readers)
            if freeze and not stopped and (pid := _pid_to_freeze(readers)):
                stopped, named_seconds = True, _freeze(pid, folder / "stderr")
            time.sleep(LOOK_SECONDS)
        watched = [_watched_rank(reader) for reader in readers.values()]
    finally:
        _end(process)
        for reader in readers.values():
            reader.close()
    errors = (folder / "stderr").read_text(errors="replace")
    if not (folder / "card.json").exists():
        raise NoRun(f"zmon wrote no card: {errors.strip().splitlines()[-1:]}")
    counts = [json.loads(path.read_text()) for path in out.glob("counted-*.json")]
    counted = {count["rank"]: count for count in counts}
    if sorted(counted) != list(range(NUM_RANKS)):
        raise NoRun(f"exit code {process.returncode}, and ranks {sorted(counted)} counted their steps")
    return Run(
        process.returncode,
        errors,
        json.loads((folder / "card.json").read_text()),
        watched,
        counted,
        {int(path.stem.rpartition("-")[2]): _flight(path) for path in out.glob("flight-*.json")},
        stopped,
        named_seconds,
    )


def _flight(path: Path) -> FlightDump:
    """Return the flight record in a file."""
    return msgspec.json.decode(path.read_bytes(), type=FlightDump)


def _open_new(boxes: Path, readers: dict[Path, BoxReader]) -> None:
    """Open the new boxes. An open box stays readable after `zmon watch` has removed its file."""
    for path in boxes.rglob("*.box"):
        if path not in readers and not path.name.startswith("."):
            with contextlib.suppress(OSError, ZmonError):
                readers[path] = BoxReader(path)


def _pid_to_freeze(readers: dict[Path, BoxReader]) -> int | None:
    """Return the process id of the rank to freeze once it has done enough steps, else None."""
    for reader in readers.values():
        with contextlib.suppress(OSError, ZmonError):
            identity, now = reader.identity(), reader.now()
            if identity.rank == FROZEN_RANK and now.activity == "train":
                return identity.pid if read_totals(reader).steps >= FREEZE_STEP else None
    return None


def _freeze(pid: int, messages: Path) -> float | None:
    """Stop a process until zmon says that a rank is frozen. Return the seconds until then, or None if it never did."""
    began = time.monotonic()
    os.kill(pid, signal.SIGSTOP)
    try:
        while (seconds := time.monotonic() - began) < NAME_SECONDS:
            if b"rank_frozen" in messages.read_bytes():
                return seconds
            time.sleep(LOOK_SECONDS)
    finally:
        os.kill(pid, signal.SIGCONT)
    return None


def _watched_rank(reader: BoxReader) -> WatchedRank:
    """Return what a box says about its rank."""
    first, raw = reader.boundaries_after(0, layout.RING_CAPACITY)
    stays = Counter(
        activity for activity, _ in groupby(_activities(ring.boundaries(raw, first, reader.seed, reader.layout)))
    )
    return WatchedRank(reader.identity(), read_totals(reader), stays, reader.now().activity, reader.report())


def _activities(rows: Iterable[ring.Row]) -> Iterator[str]:
    """Yield the activity before each boundary. What interrupts an activity, such as a compilation, is left out."""
    for before, after in pairwise(rows):
        spent = zip(ACTIVITIES, before[layout.BETWEEN], after[layout.BETWEEN], strict=True)
        activity = next((name for name, earlier, later in spent if later > earlier), "train")
        if activity not in ("compile", "loader_start"):
            yield activity


def _end(process: subprocess.Popen[bytes]) -> None:
    """Kill a run that has not ended, with all its processes, and reap it."""
    if process.poll() is None:
        watch = psutil.Process(process.pid)
        for left in [*watch.children(recursive=True), watch]:
            with contextlib.suppress(psutil.NoSuchProcess):
                left.kill()
    process.wait(10)
