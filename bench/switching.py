"""The cost of monitoring in real jobs on gloo, which remove zmon and install it again every few steps.

Blocks of steps with zmon are compared with neighbouring blocks without it. Other load of the machine cancels out if it
lasts longer than a block. Blocks without zmon are compared with each other in the same way. This difference is the
floor: a smaller cost cannot be measured. There are two clocks. Wall-clock time includes waiting for the other rank. The
CPU time of the rank's main thread is steadier. A job with one rank waits for nobody, so its blocks are short, and its
CPU time is measured best.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np

from bench.ranks import run_ranks
from bench.rows import PERCENT, US_PER_SECOND
from bench.switch import ABSENT, AGAIN, IDLE, WATCHED

MODES = (WATCHED, ABSENT, AGAIN, IDLE)  # run forward and backward, so that neighbours here are always neighbours
PREVIOUS_RELEASE = "68b63e5"  # 0.1.0
_C, _PYTHON, _PREVIOUS = "C edge", "Python edge", "previous release"
_RESAMPLES = 10_000
_TRIM_RATIO = 0.2  # dropped at either end of the differences: blocks in which another process used the core
# A job that is slower than this is aborted.
_START_SECONDS = 60.0
_WARM_UP_STEPS, _MAX_STEP_SECONDS = 300, 0.1


@dataclass(frozen=True)
class Job:
    """A job to measure: its module in bench.jobs, ranks, seconds of a step, and the editions of zmon that watch it."""

    title: str
    kind: str
    ranks: int
    step_seconds: float
    editions: tuple[str, ...]


JOBS = (
    Job("DDP", "ddp", 1, 0.002, (_C, _PYTHON, _PREVIOUS)),
    Job("DDP", "ddp", 1, 0.020, (_C, _PYTHON)),
    Job("DDP", "ddp", 2, 0.002, (_C, _PYTHON, _PREVIOUS)),
    Job("DDP", "ddp", 2, 0.020, (_C,)),
    Job("bundled trainer", "trainer", 1, 0.020, (_C, _PYTHON)),
    Job("bundled trainer", "trainer", 2, 0.020, (_C,)),
    Job("DataLoader", "loader", 1, 0.002, (_C,)),
    Job("FSDP2", "fsdp2", 1, 0.002, (_C,)),
    *([Job("TorchRec", "torchrec", 1, 0.002, (_C,))] if find_spec("torchrec") else []),
)  # fmt: skip


@dataclass(frozen=True)
class Interval:
    """A trimmed mean and its 95 % interval by bootstrap."""

    value: float
    low: float
    high: float

    def text(self, scale: float) -> str:
        """Return the numbers in another unit: multiplied by `scale`."""
        return f"{self.value * scale:.1f} ({self.low * scale:.1f} … {self.high * scale:.1f})"


@dataclass(frozen=True)
class Cost:
    """The time that zmon adds to a step of one rank, in seconds."""

    rank: int
    step: float  # without zmon
    processor: Interval
    processor_floor: Interval  # blocks without zmon, compared with each other
    wall: Interval
    wall_floor: Interval
    idle: Interval  # processor time, with hooks but without a rank
    reported: float  # what zmon reports of itself


Results = list[dict[str, Any]]  # by rank, as bench.job writes them


def measure(seconds: float) -> Iterator[str]:
    """Measure all jobs, for about this many seconds each, and yield the lines of a table."""
    yield _line(("job", "watched by", "rank", "step", "processor time, µs", "floor", "of the step", "wall, µs", "floor",
                 "idle, µs", "reported, µs", "processor ÷ reported"))  # fmt: skip
    with previous_release() as previous:
        for job in JOBS:
            for edition in job.editions:
                env = {}
                if edition == _PYTHON:
                    env = {"ZMON_EDGE": "python"}
                elif edition == _PREVIOUS:
                    if previous is None:
                        continue
                    env = {"PYTHONPATH": str(previous)}
                print(f"  {job.title}, {job.ranks} ranks, {edition} …", file=sys.stderr, flush=True)
                results = measure_job(job.kind, job.ranks, seconds, job.step_seconds, *MODES, env=env)
                yield from (_line((f"{job.title}, {job.ranks}", edition, *cells(cost))) for cost in costs(results))


def costs(results: Results) -> Iterator[Cost]:
    """Yield the cost of zmon on each rank from its blocks."""
    for rank, result in enumerate(results):
        blocks = {clock: _by_mode(result, clock) for clock in ("wall", "processor", "reported")}
        wall, processor = blocks["wall"], blocks["processor"]
        yield Cost(
            rank=rank,
            step=statistics.median(wall[ABSENT]),
            processor=trimmed_mean(processor[WATCHED] - processor[ABSENT]),
            processor_floor=trimmed_mean(processor[AGAIN] - processor[ABSENT]),
            wall=trimmed_mean(wall[WATCHED] - wall[ABSENT]),
            wall_floor=trimmed_mean(wall[AGAIN] - wall[ABSENT]),
            idle=trimmed_mean(processor[IDLE] - processor[AGAIN]),
            reported=trimmed_mean(blocks["reported"][WATCHED]).value,
        )


def cells(cost: Cost) -> tuple[str, ...]:
    """Return the cells of a line."""
    return (
        f"{cost.rank}", f"{cost.step * 1e3:.1f} ms", cost.processor.text(US_PER_SECOND),
        cost.processor_floor.text(US_PER_SECOND), f"{cost.processor.value / cost.step * PERCENT:.2f} %",
        cost.wall.text(US_PER_SECOND), cost.wall_floor.text(US_PER_SECOND), cost.idle.text(US_PER_SECOND),
        f"{cost.reported * US_PER_SECOND:.1f}", f"{cost.processor.value / cost.reported:.2f}",
    )  # fmt: skip


def trimmed_mean(differences: np.ndarray) -> Interval:
    """Return the trimmed mean of differences, and its 95 % interval by bootstrap."""
    resamples = np.random.default_rng(0).choice(differences, (_RESAMPLES, len(differences)))
    low, high = np.quantile(_trimmed(resamples), (0.025, 0.975))
    return Interval(float(_trimmed(differences)), float(low), float(high))


def measure_job(
    kind: str, ranks: int, seconds: float, step_seconds: float, *modes: str, env: dict[str, str] | None = None
) -> Results:
    """Run the job to its end, with its own box directory; return the measurements of its ranks."""
    limit = _START_SECONDS + 5 * seconds + _WARM_UP_STEPS * _MAX_STEP_SECONDS
    arguments = (kind, str(seconds), str(step_seconds), "computes", *modes)
    return run_ranks("bench.job", *arguments, seconds=limit, ranks=ranks, env=env)


@contextmanager
def previous_release() -> Iterator[Path | None]:
    """Check out the previous release to a folder of its own; None if this is no checkout that has it."""
    checkout = Path(__file__).parents[1]
    archive = subprocess.run(
        ["git", "-C", str(checkout), "archive", PREVIOUS_RELEASE, "zmon"], capture_output=True, check=False
    )
    if archive.returncode:
        print(f"  without the previous release: {archive.stderr.decode().strip()}", file=sys.stderr)
        yield None
        return
    with tempfile.TemporaryDirectory(prefix="zmon-bench-") as folder:
        with tarfile.open(fileobj=BytesIO(archive.stdout)) as files:
            files.extractall(folder, filter="data")
        yield Path(folder)


def _by_mode(result: dict[str, Any], clock: str) -> dict[str, np.ndarray]:
    """Return the blocks of one rank by mode; the n-th block of a mode neighbours the n-th of the modes beside it."""
    rounds = len(result["blocks"]) // len(MODES)
    return {
        mode: np.array([block[clock] for block in result["blocks"] if block["mode"] == mode][:rounds]) for mode in MODES
    }


def _trimmed(differences: np.ndarray) -> np.ndarray:
    num_trimmed = int(differences.shape[-1] * _TRIM_RATIO)
    middle = np.sort(differences, axis=-1)[..., num_trimmed : differences.shape[-1] - num_trimmed]
    return np.asarray(middle.mean(axis=-1))


def _line(texts: tuple[str, ...]) -> str:
    widths = (20, 18, 5, 9, 24, 22, 12, 26, 26, 22, 13, 21)
    return "  " + " ".join(f"{text:<{width}}" for text, width in zip(texts, widths, strict=True)).rstrip()
