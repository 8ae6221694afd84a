"""Each job of this directory, run once under `zmon run` and once without it, side by side."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import time
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import psutil

from zmon.box import box_path
from zmon.box.reader import BoxReader, Identity, Totals
from zmon.errors import ZmonError
from zmon.schema.rank import LastWords
from zmon.schema.step import StepRecord

HERE = Path(__file__).parent
BIN = Path(sys.executable).parent
SECONDS = 60  # a job takes five to ten
# What a rank says as torch 2.13 aborts it at its very end, without zmon too: a thread of gloo's gives back the tensors
# of the last collective (ProcessGroupGloo::runLoop) and asks for the lock of an interpreter that has ended.
ABORTED_AT_THE_END = "terminate called without an active exception"
TRIES = 4


@dataclass(frozen=True)
class Job:
    """How people start it."""

    script: str
    arguments: tuple[str, ...] = ()
    ranks: int = 2
    torchrun: bool = True
    data: bool = False  # it trains from a DataLoader

    def __str__(self) -> str:
        return "-".join((self.script, *(argument.strip("-") for argument in self.arguments), str(self.ranks)))

    def command(self, out: Path) -> list[str]:
        """The whole command line; `out` is where the job leaves what it counted."""
        launcher = (
            [BIN / "torchrun", "--standalone", "--nproc-per-node", self.ranks] if self.torchrun else [BIN / "python"]
        )
        return [str(word) for word in (*launcher, HERE / f"{self.script}.py", out, *self.arguments)]


class Look(NamedTuple):
    """What a box said when it was looked at, between these two moments."""

    rank: int
    before: float
    after: float
    activity: str


@dataclass(frozen=True)
class Box:
    """What a box holds once its rank is gone."""

    identity: Identity
    totals: Totals
    records: list[StepRecord]
    activity: str
    words: LastWords | None


@dataclass(frozen=True)
class Outcome:
    """One run, from outside."""

    exit_code: int
    stdout: str
    stderr: str
    tallies: dict[int, dict[str, Any]]


@dataclass(frozen=True)
class Ran:
    """A job that ran both ways."""

    job: Job
    plain: Outcome
    watched: Outcome
    boxes: dict[int, Box]
    box_files: set[Path]  # relative to the directory of the boxes
    looks: list[Look]


def run_both_ways(job: Job, room: Path) -> Ran:
    """Both ways, and again where torch itself aborted a rank that had ended: that says nothing about zmon."""
    for number in range(TRIES):
        (room / str(number)).mkdir()
        ran = run_side_by_side(job, room / str(number))
        aborted = [how for how in ("plain", "watched") if ABORTED_AT_THE_END in getattr(ran, how).stderr]
        if not aborted:
            break
        warnings.warn(f"{job}: torch aborted a rank at its very end ({' and '.join(aborted)})", stacklevel=1)
    return ran


def run_side_by_side(job: Job, room: Path) -> Ran:
    """Start it twice, look at the boxes of the one under `zmon run` until both have ended."""
    boxes, looks = room / "boxes", []
    zmon_run = [str(BIN / "zmon"), "run", "--job-id", "job", "--"]
    with running(job, room / "plain", []) as plain, running(job, room / "watched", zmon_run, boxes) as watched:
        deadline = time.monotonic() + SECONDS
        readers: dict[int, BoxReader] = {}
        while (watched.poll() is None or plain.poll() is None) and time.monotonic() < deadline:
            looks += look_at(boxes, job.ranks, readers)
            time.sleep(0.005)
        for reader in readers.values():
            reader.close()
        assert watched.poll() is not None, f"{job} does not end under zmon run"
        assert plain.poll() is not None, f"{job} does not end"
    return Ran(
        job,
        outcome(plain.returncode, room / "plain"),
        outcome(watched.returncode, room / "watched"),
        {rank: held for rank in range(job.ranks) if (held := read_box(box_path(boxes, "job", 0, rank)))},
        {path.relative_to(boxes) for path in boxes.rglob("*.box")},
        looks,
    )


@contextlib.contextmanager
def running(job: Job, out: Path, prefix: list[str], boxes: Path | None = None) -> Iterator[subprocess.Popen[bytes]]:
    """The job with all its processes ended at last."""
    out.mkdir()
    env = {name: value for name, value in os.environ.items() if not name.startswith("ZMON_")}
    env |= {"OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo"} | ({"ZMON_BOX_DIR": str(boxes)} if boxes else {})
    with (out / "stdout").open("wb") as stdout, (out / "stderr").open("wb") as stderr:
        process = subprocess.Popen(
            [*prefix, *job.command(out)],
            env=env, cwd=out, stdin=subprocess.DEVNULL, stdout=stdout, stderr=stderr,
        )  # fmt: skip
    try:
        yield process
    finally:
        if process.poll() is None:
            for one in [*psutil.Process(process.pid).children(recursive=True), psutil.Process(process.pid)]:
                with contextlib.suppress(psutil.NoSuchProcess):
                    one.kill()
        process.wait(10)


def look_at(boxes: Path, ranks: int, readers: dict[int, BoxReader]) -> Iterator[Look]:
    """What each box says at this moment."""
    for rank in range(ranks):
        before = time.monotonic()
        try:
            if rank not in readers:
                readers[rank] = BoxReader(box_path(boxes, "job", 0, rank))
            activity = readers[rank].now().activity
            yield Look(rank, before, time.monotonic(), activity)
        except (OSError, ZmonError):
            continue  # not there yet, or not whole


def read_box(path: Path) -> Box | None:
    """All of a box; None if there is none."""
    if not path.exists():
        return None
    reader = BoxReader(path)
    records = [record for _, record in reader.records(0)]
    box = Box(reader.identity(), reader.totals(), records, reader.now().activity, reader.words())
    reader.close()
    return box


def outcome(exit_code: int, out: Path) -> Outcome:
    """What a run left behind."""
    tallies = [json.loads(path.read_text()) for path in out.glob("counted-*.json")]
    return Outcome(
        exit_code,
        (out / "stdout").read_text(),
        (out / "stderr").read_text(),
        {tally["rank"]: tally for tally in tallies},
    )
