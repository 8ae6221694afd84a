"""Each job of this directory, run under `zmon run` or in forks that are watched as under it, and without zmon."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import psutil

from tests.conftest import Zygote
from tests.jobs import golden
from tests.jobs.golden import Outcome
from tests.ranks import ABORTED_AT_THE_END, TRIES, run_ranks
from zmon.box import box_path
from zmon.box.reader import BoxReader, Identity, Totals
from zmon.errors import ZmonError
from zmon.schema.rank import LastWords
from zmon.schema.step import StepRecord

HERE = Path(__file__).parent
BIN = Path(sys.executable).parent
SECONDS = 120  # a job takes five to ten, on a machine that is busy with others a minute
ENVIRONMENT = {"OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo"}


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
class Ran:
    """A job that ran watched, and what it does without zmon: its golden, or a run."""

    job: Job
    plain: Outcome
    plain_is_golden: bool
    watched: Outcome
    boxes: dict[int, Box]
    box_files: set[Path]  # relative to the directory of the boxes
    looks: list[Look]


def run_watched(job: Job, room: Path, zygote: Zygote | None = None) -> Ran:
    """Under `zmon run`, or in forks of the zygote; without zmon only where the golden is of another torch."""
    plain = golden.read(str(job))
    if plain is None:
        return run_both_ways(job, room)
    return again_if_aborted(job, lambda folder: _watched(job, folder, plain, zygote), room)


def run_both_ways(job: Job, room: Path) -> Ran:
    """Under `zmon run` and without it, side by side."""

    def both(folder: Path) -> Ran:
        with running(job, folder / "plain", []) as plain:
            ran = _watched(job, folder, None, None)
            assert wait(plain), f"{job} does not end"
        return Ran(**vars(ran) | {"plain": outcome(plain.returncode, folder / "plain"), "plain_is_golden": False})

    return again_if_aborted(job, both, room)


def again_if_aborted(job: Job, run: Callable[[Path], Ran], room: Path) -> Ran:
    """Run it again where torch itself aborted a rank that had ended: that says nothing about zmon."""
    for number in range(TRIES):
        (room / str(number)).mkdir()
        ran = run(room / str(number))
        aborted = [how for how in ("plain", "watched") if ABORTED_AT_THE_END in "\n".join(getattr(ran, how).stderr)]
        if not aborted:
            break
        warnings.warn(f"{job}: torch aborted a rank at its very end ({' and '.join(aborted)})", stacklevel=1)
    return ran


def _watched(job: Job, room: Path, plain: Outcome | None, zygote: Zygote | None) -> Ran:
    boxes, out = room / "boxes", room / "watched"
    with looking(boxes, job.ranks) as looks:
        if zygote:
            out.mkdir()
            command = [HERE / "watched_rank.py", HERE / f"{job.script}.py", out, *job.arguments]
            env = ENVIRONMENT | {"ZMON_BOX_DIR": str(boxes), "ZMON_JOB_ID": "job"}
            ended = run_ranks(zygote, room / "logs", job.ranks, *map(str, command), seconds=SECONDS, **env)
            (out / "stdout").write_text(ended.stdout)
            (out / "stderr").write_text(ended.stderr)
            watched = outcome(ended.returncode, out)
        else:
            with running(job, out, [str(BIN / "zmon"), "run", "--job-id", "job", "--"], boxes) as process:
                assert wait(process), f"{job} does not end under zmon run"
            watched = outcome(process.returncode, out)
    return Ran(
        job,
        plain or watched,
        plain is not None,
        watched,
        {rank: held for rank in range(job.ranks) if (held := read_box(box_path(boxes, "job", 0, rank)))},
        {path.relative_to(boxes) for path in boxes.rglob("*.box")},
        looks,
    )


def wait(process: subprocess.Popen[bytes]) -> bool:
    """Whether it ended in time."""
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(SECONDS)
    return process.returncode is not None


@contextlib.contextmanager
def looking(boxes: Path, ranks: int) -> Iterator[list[Look]]:
    """Look at the boxes of a job all the time."""
    looks: list[Look] = []
    through = threading.Event()

    def look() -> None:
        readers: dict[int, BoxReader] = {}
        while not through.wait(0.005):
            looks.extend(look_at(boxes, ranks, readers))
        for reader in readers.values():
            reader.close()

    thread = threading.Thread(target=look)
    thread.start()
    try:
        yield looks
    finally:
        through.set()
        thread.join()


@contextlib.contextmanager
def running(job: Job, out: Path, prefix: list[str], boxes: Path | None = None) -> Iterator[subprocess.Popen[bytes]]:
    """The job with all its processes ended at last."""
    out.mkdir()
    env = {name: value for name, value in os.environ.items() if not name.startswith("ZMON_")}
    env |= ENVIRONMENT | ({"ZMON_BOX_DIR": str(boxes)} if boxes else {})
    with (out / "stdout").open("wb") as stdout, (out / "stderr").open("wb") as stderr:
        process = subprocess.Popen(
            [*prefix, *job.command(out)],
            env=env, cwd=out, stdin=subprocess.DEVNULL, stdout=stdout, stderr=stderr,
        )  # fmt: skip
    try:
        yield process
    finally:
        if process.poll() is None:
            for each in [*psutil.Process(process.pid).children(recursive=True), psutil.Process(process.pid)]:
                with contextlib.suppress(psutil.NoSuchProcess):
                    each.kill()
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
        golden.lines((out / "stdout").read_text()),
        golden.lines((out / "stderr").read_text()),
        {tally["rank"]: tally for tally in tallies},
    )
