"""Strike a drill's job from within: the job calls methods of this module, and a file of orders decides what they do.

The module is in the directory of the scripts, so they can import it. It does not use zmon, because zmon must detect the
faults from outside. Orders are a JSON list of `{"what", "ranks", "at", "amount"}`; `at` is the first step that an
order applies to (0: at once). An order that is removed from the file no longer applies. When a rank first obeys an
order, it writes the unix time to `struck-<rank>`. Most of a step is sleep, so that many ranks fit on few cores,
and a rank that should be 1.5 × slower is exactly that.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median
from typing import IO, Any

import ends  # type: ignore[import-not-found]
import hangs  # type: ignore[import-not-found]
import pauses  # type: ignore[import-not-found]

JITTER = 0.3  # sigma of the log-normal distribution of step times: p99 is twice the median
DATA_SHARE = 0.15  # share of a step for its input
SERVE_SHARE = 0.1  # additional share of a step for lookups for other ranks, in a job with shards
CHECKPOINT_SECONDS = 1.0
RECURRING_STEPS = 100  # steps from one pause to the next, of orders that recur
EAT_BYTES = 8 << 20  # of memory in each step, by the order `eat`


class Saboteur:
    """The saboteur of one rank: it sets the pace of the rank and obeys orders."""

    def __init__(self) -> None:
        spec = json.loads(os.environ["DRILL"])
        self.folder = Path(spec["folder"])
        self.rank = int(os.environ["RANK"])
        self.checkpoint_steps: int = spec["checkpoint_steps"]
        self.last_step: int = spec["steps"]
        self.step = 0
        self._seconds: float = spec["step_seconds"]
        self._slow_start: float = spec["slow_start"]
        self.row_memory: int = spec["row_memory"]
        self.exchange_bytes = int(spec["exchange_rate"] * self._seconds)
        self._random = random.Random(f"{spec['seed']} {self.rank}")
        self._orders: list[dict[str, Any]] = []
        self._has_obeyed = False  # this rank has begun to obey an order
        self._orders_version: tuple[int, int] | None = None  # inode and modification time of the file that was read
        self._recent: deque[float] = deque(maxlen=20)
        self._usual_seconds = self._seconds  # median step time before the current order
        self._step_began_at = time.monotonic()
        self._allocated: list[bytearray] = []
        if spec["handles_term"]:
            signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
        self._steps = (self.folder / f"steps-{self.rank}").open("a", buffering=1)

    def begin_step(self) -> None:
        """Begin a step: write the duration of the previous step, and read new orders."""
        now = time.monotonic()
        if self.step:
            self._recent.append(now - self._step_began_at)
            self._steps.write(f"{self.step} {now - self._step_began_at:.6f} {time.time():.3f}\n")
        self._step_began_at = now
        self.step += 1
        self._read_orders()
        if self.order("raise"):
            print("reader: shard 17 is truncated", file=sys.stderr, flush=True)
            raise ValueError("bad sample in shard 17")
        for way in ends.WAYS:
            if self.order(way):
                ends.end(way)
        if self.once("reset"):
            ends.reset_connection()
        if order := self.once("pause_between"):
            time.sleep(order["amount"])
        if (order := self.order("eat")) and sum(map(len, self._allocated)) < order["amount"]:
            self._allocated.append(bytearray(b"x") * EAT_BYTES)
        if self.once("pause"):
            time.sleep(10 * self._usual_seconds)
        if order := self.recurring("save_array"):
            pauses.save_array(self.folder / f"array-{self.rank}.npy", order["amount"])
        if order := self.recurring("compile"):
            pauses.compile_function(order["amount"])
        if self.recurring("pauses"):
            time.sleep(random.uniform(2.0, 15.0))
        if self.once("deadlock"):
            hangs.wait_for_lock(self._hold)
        if self.once("hold_interpreter"):
            hangs.hold_interpreter(self._hold)

    def load(self) -> None:
        """Spend the time of a step's input."""
        if order := self.recurring("epochs"):
            pauses.start_workers(order["amount"])
        if self.once("loader_hangs"):
            hangs.read_forever(self._hold)
        if order := self.once("pause_data"):
            time.sleep(order["amount"])
        if self.order("raise_in_loader"):
            ends.end("raise_storage")
        if order := self.order("slow_loader"):
            time.sleep(order["amount"] * self._usual_seconds)
        time.sleep(self._random_seconds(DATA_SHARE) * self.pooling())

    @contextlib.contextmanager
    def compute(self) -> Iterator[None]:
        """Lengthen the job's computation in a step by sleep, to the duration that it should have."""
        begin = time.monotonic()
        yield
        if order := self.once("pause_compute"):
            time.sleep(order["amount"])
        first_step_factor = self._slow_start if self.step == 1 else 1.0
        time.sleep(self._random_seconds(1 - DATA_SHARE) * self.pooling() * first_step_factor)
        factor = self._factor()
        if factor > 1:
            time.sleep((factor - 1) * (time.monotonic() - begin))

    def serve(self, received: float) -> None:
        """Spend the time of the lookups for other ranks; `received` is a multiple of the usual amount."""
        time.sleep(self._random_seconds(SERVE_SHARE) * received)

    def pooling(self) -> float:
        """Return the lookups of this step's batch as a multiple of the usual number."""
        return self._random.uniform(1, 5) / 3 if self.order("pooling") else 1.0

    def leaves(self) -> bool:
        """Return True if this rank leaves the training loop, by an order or after its last step."""
        return self.order("leave") is not None or 0 < self.last_step <= self.step

    def skips(self) -> bool:
        """Return True if this rank leaves out the next collective."""
        return self.once("skip") is not None

    def swallows(self) -> bool:
        """Return True if the job catches an exception now, and goes on with the next batch."""
        return self.once("swallow") is not None

    def sent_size(self, size: int) -> int:
        """Return the size of this rank's tensor in a collective in which the others have `size` numbers."""
        return 2 * size if self.once("size") else size

    def hot(self) -> int | None:
        """Return the rank of the shard that all ranks send more to, or None."""
        order = self.order("hot")
        return None if order is None else int(order["amount"])

    def is_nan(self) -> bool:
        """Return True if the job should replace its samples by NaN."""
        return self.order("spoil") is not None

    def between_steps(
        self, evaluate: Callable[[float], object], save: Callable[[Any], object], barrier: Callable[[], object]
    ) -> None:
        """Evaluate for some seconds, or save to a file, if this is due on any rank; the others wait at the barrier."""
        if (seconds := self._due_seconds("evaluate")) is not None:
            if seconds:
                evaluate(seconds)
            barrier()
        is_due = self.checkpoint_steps and self.step % self.checkpoint_steps == 0
        if (seconds := CHECKPOINT_SECONDS if is_due else self._due_seconds("save")) is not None:
            save(self._checkpoint(seconds))
            barrier()

    def _checkpoint(self, seconds: float) -> Any:
        """Return the file to save to. If `seconds` is not 0, writing to it takes that long."""
        path = self.folder / f"checkpoint-{self.rank}.pt"
        (self.folder / f"saving-{self.rank}").write_text(str(time.time()))
        return SlowFile(path, seconds) if seconds else str(path)

    def order(self, what: str) -> dict[str, Any] | None:
        """Return the order of this kind that applies now to this rank, or None. The first call records its time."""
        for order in self._orders:
            applies = order["ranks"] is None or self.rank in order["ranks"]
            if order["what"] == what and applies and self.step >= order["at"]:
                if not self._has_obeyed:
                    self._usual_seconds = median(self._recent) if self._recent else self._seconds
                    self._has_obeyed = True
                    _write(self.folder / f"struck-{self.rank}", str(time.time()))
                return order
        return None

    def once(self, what: str) -> dict[str, Any] | None:
        """Return the order of this kind as `order` does, but only before this rank has obeyed any order."""
        had_obeyed = self._has_obeyed
        order = self.order(what)
        return None if had_obeyed else order

    def recurring(self, what: str) -> dict[str, Any] | None:
        """Return the order of this kind in its first step and in every hundredth step from there on, else None."""
        order = self.order(what)
        return order if order and (self.step - order["at"]) % RECURRING_STEPS == 0 else None

    def _due_seconds(self, what: str) -> float | None:
        """Return the time of an order that is due in this step. 0: not for this rank. None: for no rank."""
        if not any(order["what"] == what and order["at"] == self.step for order in self._orders):
            return None
        order = self.once(what)
        return float(order["amount"]) if order else 0.0

    def _factor(self) -> float:
        """Return the factor on the computation of a step by the orders `slow` and `batch`."""
        orders = filter(None, (self.order("slow"), self.order("batch")))
        return max((float(order["amount"]) for order in orders), default=1.0)

    def _random_seconds(self, share: float) -> float:
        """Return the time of a part of a step, which varies with the mean `share` of a step."""
        return self._seconds * share * self._random.lognormvariate(-JITTER * JITTER / 2, JITTER)

    def _read_orders(self) -> None:
        file = self.folder / "orders.json"
        try:
            status = file.stat()
            if (status.st_ino, status.st_mtime_ns) != self._orders_version:
                self._orders_version = (status.st_ino, status.st_mtime_ns)
                self._orders = json.loads(file.read_text())
        except FileNotFoundError:
            pass

    @property
    def _hold(self) -> str:
        """The path of the pipe that holds this rank until its fault is lifted."""
        return str(self.folder / f"hold-{self.rank}")


class SlowFile:
    """A file on a slow store: its first write takes the given seconds."""

    def __init__(self, path: Path, seconds: float) -> None:
        self._path, self._seconds = path, seconds
        self._file: IO[bytes] | None = None

    def write(self, data: bytes) -> int:
        """Write to the file. The first call opens it and waits."""
        if self._file is None:
            self._file = self._path.open("wb")
            time.sleep(self._seconds)
        return self._file.write(data)

    def flush(self) -> None:
        """Flush the file, if it is open."""
        if self._file is not None:
            self._file.flush()


def hot_factor(ranks: int) -> float:
    """Return the factor on what one of more than three ranks receives, so that it receives three times the mean."""
    return 3 * (ranks - 1) / (ranks - 3)


def _write(path: Path, text: str) -> None:
    """Write a file in one step, so that no reader gets a part of it."""
    new = path.with_name(f".{path.name}")
    new.write_text(text)
    new.rename(path)
