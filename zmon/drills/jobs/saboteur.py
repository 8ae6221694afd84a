"""What strikes a drill's job from within: the job passes through seams, and a file of orders says what they do.

It stands beside the scripts, on their path, and knows nothing of zmon: what it does has to be seen from outside. Orders
are a JSON list of `{"id", "what", "ranks", "at", "amount"}`; `at` is the first step they hold for (0: at once), and an
order that has left the file holds no longer. For each it leaves `struck-<id>-<rank>`, the unix time at which it began.
Time is spent asleep, so that many ranks fit on few cores and half as much again is exactly that.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import random
import signal
import sys
import threading
import time
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import IO, Any

JITTER = 0.3  # sigma of the lognormal that a step's length is drawn from: p99 is twice the median
DATA_SHARE = 0.15  # of a step spent on its input
SERVE_SHARE = 0.1  # more of it, in a job with shards, spent on looking up what the others asked for
CHECKPOINT_SECONDS = 1.0
MIB = 1 << 20


class Saboteur:
    """One rank's orders, its pace, and what becomes of it."""

    def __init__(self) -> None:
        told = json.loads(os.environ["DRILL"])
        self.folder = Path(told["folder"])
        self.rank = int(os.environ["RANK"])
        self.checkpoint_steps: int = told["checkpoint_steps"]
        self.last_step: int = told["steps"]
        self.step = 0
        self._seconds: float = told["step_seconds"]
        self._slow_start: float = told["slow_start"]
        self.exchange_bytes = int(told["exchange_rate"] * self._seconds)
        self._random = random.Random(f"{told['seed']} {self.rank}")
        self._orders: list[dict[str, Any]] = []
        self._done: set[str] = set()
        self._seen: tuple[int, int] | None = None
        self._recent: deque[float] = deque(maxlen=20)
        self._typical = self._seconds  # of a step, before the order that is obeyed now
        self._began = time.monotonic()
        self._eaten: list[bytearray] = []
        self._steps = (self.folder / f"steps-{self.rank}").open("a", buffering=1)

    def begin_step(self) -> None:
        """Every step begins here: write down how long the one before it took, and look for orders."""
        now = time.monotonic()
        if self.step:
            self._recent.append(now - self._began)
            self._steps.write(f"{self.step} {now - self._began:.6f}\n")
        self._began = now
        self.step += 1
        self._look()
        if self.order("raise"):
            print("reader: shard 17 is truncated", file=sys.stderr, flush=True)
            raise ValueError("bad sample in shard 17")
        if (order := self.order("eat")) and sum(map(len, self._eaten)) < order["amount"]:
            self._eaten.append(bytearray(b"x") * (8 * MIB))
        if self.once("pause"):
            time.sleep(10 * self._typical)
        if self.once("deadlock"):
            wait_for_lock(self._hold)
        if self.once("hold_interpreter"):
            hold_interpreter(self._hold)

    def load(self) -> None:
        """The input of a step."""
        if self.once("loader_hangs"):
            read_forever(self._hold)
        if order := self.order("slow_loader"):
            time.sleep(order["amount"] * self._typical)
        time.sleep(self._drawn(DATA_SHARE) * self.pooling())

    @contextlib.contextmanager
    def compute(self) -> Iterator[None]:
        """The computation of a step: the job's own, and sleep to make it as long as it should be."""
        begin = time.monotonic()
        yield
        first = self._slow_start if self.step == 1 else 1.0
        time.sleep(self._drawn(1 - DATA_SHARE) * self.pooling() * first)
        factor = self._factor()
        if factor > 1:
            time.sleep((factor - 1) * (time.monotonic() - begin))

    def serve(self, received: float) -> None:
        """Look up what the others asked this shard for, given as a multiple of the usual."""
        time.sleep(self._drawn(SERVE_SHARE) * received)

    def pooling(self) -> float:
        """By how much the batch of this step differs from the usual one in lookups."""
        return self._random.uniform(1, 5) / 3 if self.order("pooling") else 1.0

    def leaves(self) -> bool:
        """Whether this rank leaves the loop, or has come to its end."""
        return self.order("leave") is not None or 0 < self.last_step <= self.step

    def skips(self) -> bool:
        """Whether this rank leaves out the collective that comes next."""
        return self.once("skip") is not None

    def brings(self, size: int) -> int:
        """How many numbers it brings to a collective in which the others bring `size`."""
        return 2 * size if self.once("size") else size

    def hot(self) -> int | None:
        """The shard that everybody sends more to."""
        order = self.order("hot")
        return None if order is None else int(order["amount"])

    def spoilt(self) -> bool:
        """Whether the samples are not numbers."""
        return self.order("spoil") is not None

    def evaluates(self) -> float | None:
        """For how many seconds this rank evaluates now; 0: it waits for one that does. None: nobody does."""
        return self._now("evaluate")

    def saves(self) -> float | None:
        """How many seconds a checkpoint takes now; 0: as long as it takes. None: it is not time for one."""
        due = self.checkpoint_steps and self.step % self.checkpoint_steps == 0
        return CHECKPOINT_SECONDS if due else self._now("save")

    def checkpoint(self, seconds: float) -> Any:
        """Where to save: a file, or one that takes so many seconds."""
        path = self.folder / f"checkpoint-{self.rank}.pt"
        (self.folder / f"saving-{self.rank}").write_text(str(time.time()))
        return SlowFile(path, seconds) if seconds else str(path)

    def order(self, what: str) -> dict[str, Any] | None:
        """The order of that kind that holds for this rank in this step; said to have begun when first asked for."""
        for order in self._orders:
            meant = order["ranks"] is None or self.rank in order["ranks"]
            if order["what"] == what and meant and self.step >= order["at"]:
                if order["id"] not in self._done:
                    self._typical = median(self._recent) if self._recent else self._seconds
                    self._done.add(order["id"])
                    _write(self.folder / f"struck-{order['id']}-{self.rank}", str(time.time()))
                return order
        return None

    def once(self, what: str) -> dict[str, Any] | None:
        """The same, but an order is obeyed a single time."""
        before = set(self._done)
        order = self.order(what)
        return None if order is None or order["id"] in before else order

    def _now(self, what: str) -> float | None:
        everybody = [o for o in self._orders if o["what"] == what and o["at"] == self.step]
        if not everybody:
            return None
        mine = self.once(what)
        return float(mine["amount"]) if mine else 0.0

    def _factor(self) -> float:
        orders = filter(None, (self.order("slow"), self.order("batch")))
        return max((float(order["amount"]) for order in orders), default=1.0)

    def _drawn(self, share: float) -> float:
        return self._seconds * share * self._random.lognormvariate(-JITTER * JITTER / 2, JITTER)

    def _look(self) -> None:
        file = self.folder / "orders.json"
        try:
            seen = file.stat()
            if (seen.st_ino, seen.st_mtime_ns) != self._seen:
                self._seen = (seen.st_ino, seen.st_mtime_ns)
                self._orders = json.loads(file.read_text())
        except FileNotFoundError:
            pass

    @property
    def _hold(self) -> str:
        return str(self.folder / f"hold-{self.rank}")


class SlowFile:
    """A file on a store that takes so many seconds for a checkpoint, most of them for its first byte."""

    def __init__(self, path: Path, seconds: float) -> None:
        self._path, self._seconds = path, seconds
        self._file: IO[bytes] | None = None

    def write(self, data: bytes) -> int:
        """Opens it at last."""
        if self._file is None:
            self._file = self._path.open("wb")
            time.sleep(self._seconds)
        return self._file.write(data)

    def flush(self) -> None:
        """As any file."""
        if self._file is not None:
            self._file.flush()


def read_forever(fifo: str) -> None:
    """Waits for storage that does not answer: a pipe that nobody writes to, until somebody does."""
    Path(fifo).open("rb").close()


def wait_for_lock(fifo: str) -> None:
    """Waits for a lock that a thread holds while it waits for something else."""
    lock, taken = threading.Lock(), threading.Event()

    def keep() -> None:
        with lock:
            taken.set()
            read_forever(fifo)

    threading.Thread(target=keep, daemon=True).start()
    taken.wait()
    with lock:
        pass


def hold_interpreter(fifo: str) -> None:
    """Waits in native code that keeps the interpreter to itself."""
    library = ctypes.PyDLL(None)  # unlike CDLL it does not give up the interpreter lock during a call
    number = library.open(fifo.encode(), os.O_RDONLY)
    library.close(number)


def linger() -> None:
    """What comes after the loop, on a rank that left it: the process stays."""
    while True:
        signal.pause()


def _write(path: Path, text: str) -> None:
    new = path.with_name(f".{path.name}")
    new.write_text(text)
    new.rename(path)
