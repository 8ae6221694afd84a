"""Give orders to the saboteur in a job, and read its answers, through files in the job's directory."""

from __future__ import annotations

import contextlib
import json
import os
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median, quantiles

RECENT_STEPS = 200  # steps over which quantiles are computed
_RELEASE_SECONDS = 5.0  # for a rank that is held to read its pipe


@dataclass(frozen=True)
class Order:
    """An order to the saboteur. `what`: see saboteur.py. `ranks`: None means all. `at`: the first step of the order."""

    what: str
    ranks: tuple[int, ...] | None = None
    amount: float = 0.0
    at: int = 0


def set_orders(folder: Path, *orders: Order) -> None:
    """Replace all orders by the given ones."""
    new = folder / ".orders.json"
    new.write_text(json.dumps([vars(order) for order in orders]))
    new.rename(folder / "orders.json")


def await_obeyed(folder: Path, rank: int, seconds: float) -> float | None:
    """Wait until a rank obeys; return the time at which it began, in unix seconds, or None after this many seconds."""
    mark = folder / f"struck-{rank}"
    deadline = time.monotonic() + seconds
    while not mark.exists():
        if time.monotonic() > deadline:
            return None
        time.sleep(0.01)
    return float(mark.read_text())


def make_hold(folder: Path, rank: int) -> None:
    """Make the pipe that holds a rank: the rank reads it until `release`."""
    with contextlib.suppress(FileExistsError):
        os.mkfifo(folder / f"hold-{rank}")


def release(folder: Path, rank: int) -> None:
    """Release a rank that is held. Do nothing if no rank is held."""
    deadline = time.monotonic() + _RELEASE_SECONDS
    while time.monotonic() < deadline:
        try:
            os.close(os.open(folder / f"hold-{rank}", os.O_WRONLY | os.O_NONBLOCK))
            return
        except OSError:  # the rank does not read the pipe yet
            time.sleep(0.05)


def steps_done(folder: Path) -> int:
    """Return the number of steps that rank 0 has finished."""
    last = _lines(folder)[-1:]
    return int(last[0].split()[0]) if last else 0


def newest_step(folder: Path) -> float | None:
    """Return the time at which a rank last finished a step, in unix seconds; None if none has finished one."""
    return max((file.stat().st_mtime for file in folder.glob("steps-*") if file.stat().st_size), default=None)


def launches(folder: Path) -> int:
    """Return how many launches of the job have finished a step; each launch counts its steps from 1."""
    return sum(line.startswith("1 ") for line in _lines(folder))


def seconds_to_steps(folder: Path, onset: float) -> float | None:
    """Return the seconds from the onset to the end of the first step of the next launch, or None."""
    ends = (float(line.split()[2]) for line in _lines(folder) if line.startswith("1 "))
    return min((end - onset for end in ends if end > onset), default=None)


def p99_seconds(folder: Path) -> float | None:
    """Return the 99th percentile of the job's recent steps by its own clock, or None if there are fewer than two."""
    recent = _recent(folder)
    return quantiles(recent, n=100, method="inclusive")[98] if len(recent) > 1 else None


def median_seconds(folder: Path) -> float | None:
    """Return the median of the job's recent steps by its own clock, or None if there are none."""
    recent = _recent(folder)
    return median(recent) if recent else None


def _recent(folder: Path) -> Sequence[float]:
    return [float(line.split()[1]) for line in _lines(folder)[2:][-RECENT_STEPS:]]


def _lines(folder: Path) -> Sequence[str]:
    """Return the complete lines in the file of steps of rank 0: number, seconds and time of the end of each step.

    The last line of the file may be half written.
    """
    try:
        text = (folder / "steps-0").read_text()
    except FileNotFoundError:
        return ()
    return text[: text.rfind("\n") + 1].splitlines()
