"""Run the jobs of this directory: under `zmon run` or in forks that are watched in the same way, and without zmon."""

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
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

import psutil

from tests.boxes import Totals, read_records, read_totals
from tests.conftest import Zygote
from tests.jobs import golden
from tests.jobs.golden import Outcome
from tests.ranks import ABORTED_AT_THE_END, TRIES, run_ranks
from tests.steps import StepRecord
from zmon.box import box_path
from zmon.box.reader import BoxReader, Identity
from zmon.errors import ZmonError
from zmon.schema.rank import LastWords

FOLDER = Path(__file__).parent
BIN = Path(sys.executable).parent
SECONDS = 120  # a job takes 5 to 10 s, and on a busy machine a minute
ENVIRONMENT = {"OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo"}


@dataclass(frozen=True)
class Job:
    """One of the jobs in this directory, and the way in which users start it."""

    script: str
    arguments: tuple[str, ...] = ()
    ranks: int = 2
    torchrun: bool = True
    data: bool = False  # it trains from a DataLoader

    def __str__(self) -> str:
        return "-".join((self.script, *(argument.strip("-") for argument in self.arguments), str(self.ranks)))

    def command(self, out: Path) -> list[str]:
        """Return the whole command line; the job writes its tallies to the directory `out`."""
        launcher = (
            [BIN / "torchrun", "--standalone", "--nproc-per-node", self.ranks] if self.torchrun else [BIN / "python"]
        )
        return [str(word) for word in (*launcher, FOLDER / f"{self.script}.py", out, *self.arguments)]


class Reading(NamedTuple):
    """The activity that was read from a box at some time between `before` and `after`."""

    rank: int
    before: float
    after: float
    activity: str


@dataclass(frozen=True)
class Box:
    """The content of a box whose rank has ended."""

    identity: Identity
    totals: Totals
    records: list[StepRecord]
    activity: str
    words: LastWords | None


@dataclass(frozen=True)
class Comparison:
    """A watched run of a job, and the outcome without zmon: its golden, or the outcome of another run."""

    job: Job
    plain: Outcome
    plain_is_golden: bool
    watched: Outcome
    boxes: dict[int, Box]
    box_files: set[Path]  # relative to the directory of the boxes
    readings: list[Reading]


def run_watched(job: Job, directory: Path, zygote: Zygote | None = None) -> Comparison:
    """Run a job under `zmon run` or in forks of the zygote, and without zmon too if no golden is of this torch."""
    plain = golden.read(str(job))
    if plain is None:
        return run_both_ways(job, directory)
    return again_if_aborted(job, lambda folder: _watched(job, folder, plain, zygote), directory)


def run_both_ways(job: Job, directory: Path) -> Comparison:
    """Run a job under `zmon run` and without it, side by side."""

    def both(folder: Path) -> Comparison:
        with running(job, folder / "plain", []) as plain:
            comparison = _watched(job, folder, None, None)
            assert wait(plain), f"{job} does not end"
        without_zmon = outcome(plain.returncode, folder / "plain")
        return replace(comparison, plain=without_zmon, plain_is_golden=False)

    return again_if_aborted(job, both, directory)


def again_if_aborted(job: Job, run: Callable[[Path], Comparison], directory: Path) -> Comparison:
    """Run a job, and again if torch itself aborted a rank that had ended, which is not a fault of zmon."""
    for number in range(TRIES):
        (directory / str(number)).mkdir()
        comparison = run(directory / str(number))
        outputs = {name: "\n".join(getattr(comparison, name).stderr) for name in ("plain", "watched")}
        aborted = [name for name, output in outputs.items() if ABORTED_AT_THE_END in output]
        if not aborted:
            break
        warnings.warn(f"{job}: torch aborted a rank at its very end ({' and '.join(aborted)})", stacklevel=1)
    return comparison


def _watched(job: Job, directory: Path, plain: Outcome | None, zygote: Zygote | None) -> Comparison:
    boxes, out = directory / "boxes", directory / "watched"
    with reading(boxes, job.ranks) as readings:
        if zygote:
            out.mkdir()
            command = [FOLDER / "watched_rank.py", FOLDER / f"{job.script}.py", out, *job.arguments]
            env = ENVIRONMENT | {"ZMON_BOX_DIR": str(boxes), "ZMON_JOB_ID": "job"}
            ended = run_ranks(zygote, directory / "logs", job.ranks, *map(str, command), seconds=SECONDS, **env)
            (out / "stdout").write_text(ended.stdout)
            (out / "stderr").write_text(ended.stderr)
            watched = outcome(ended.returncode, out)
        else:
            with running(job, out, [str(BIN / "zmon"), "run", "--job-id", "job", "--"], boxes) as process:
                assert wait(process), f"{job} does not end under zmon run"
            watched = outcome(process.returncode, out)
    return Comparison(
        job=job,
        plain=plain or watched,
        plain_is_golden=plain is not None,
        watched=watched,
        boxes={rank: box for rank in range(job.ranks) if (box := read_box(box_path(boxes, "job", 0, rank)))},
        box_files={path.relative_to(boxes) for path in boxes.rglob("*.box")},
        readings=readings,
    )


def wait(process: subprocess.Popen[bytes]) -> bool:
    """Wait for the end of a process. Return True if it ended in time."""
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(SECONDS)
    return process.returncode is not None


@contextlib.contextmanager
def reading(boxes: Path, ranks: int) -> Iterator[list[Reading]]:
    """Read the boxes of a job every 5 ms in the background; yield the list of readings."""
    readings: list[Reading] = []
    done = threading.Event()

    def read() -> None:
        readers: dict[int, BoxReader] = {}
        while not done.wait(0.005):
            for rank in range(ranks):
                before = time.monotonic()
                with contextlib.suppress(OSError, ZmonError):  # the box is missing or incomplete
                    if rank not in readers:
                        readers[rank] = BoxReader(box_path(boxes, "job", 0, rank))
                    activity = readers[rank].now().activity
                    readings.append(Reading(rank, before, time.monotonic(), activity))
        for reader in readers.values():
            reader.close()

    thread = threading.Thread(target=read)
    thread.start()
    try:
        yield readings
    finally:
        done.set()
        thread.join()


@contextlib.contextmanager
def running(job: Job, out: Path, prefix: list[str], boxes: Path | None = None) -> Iterator[subprocess.Popen[bytes]]:
    """Start a job, yield its launcher, and end all its processes."""
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
            launcher = psutil.Process(process.pid)
            for left in [*launcher.children(recursive=True), launcher]:
                with contextlib.suppress(psutil.NoSuchProcess):
                    left.kill()
        process.wait(10)


def read_box(path: Path) -> Box | None:
    """Return the content of a box, or None if there is no box."""
    if not path.exists():
        return None
    reader = BoxReader(path)
    records = read_records(reader)
    box = Box(reader.identity(), read_totals(reader), records, reader.now().activity, reader.words())
    reader.close()
    return box


def outcome(exit_code: int, out: Path) -> Outcome:
    """Return the outcome of a run: exit code, output and tallies."""
    tallies = [json.loads(path.read_text()) for path in out.glob("counted-*.json")]
    return Outcome(
        exit_code,
        golden.lines((out / "stdout").read_text()),
        golden.lines((out / "stderr").read_text()),
        {tally["rank"]: tally for tally in tallies},
    )
