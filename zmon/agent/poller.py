"""Does a source still tell what is, and since when not?

Each is read for ever in a thread of its own: one that hangs holds up nobody, and takes no second thread. What it last
said counts only while it is up; what comes after its timeout is thrown away, for it tells of a moment that is past.
"""

from __future__ import annotations

import contextlib
import queue
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, NamedTuple, TypeVar

from zmon.agent.sources import Reading
from zmon.errors import SourceUnavailable
from zmon.schema.host import SourceStatus

T = TypeVar("T")
_DROPPED_SAID = 8  # things a source left out that are told by name
_LINE = 300  # characters of an error
ABSENT_SECONDS = 10.0  # how often it is looked whether there is something to read now
LONGEST_PAUSE_SECONDS = 10.0


class _Outcome(NamedTuple):
    status: SourceStatus
    value: Any
    down_since: float | None  # unix seconds


class Poller:
    """One source, how it is doing, and what it last said."""

    def __init__(
        self,
        name: str,
        read: Callable[[], Reading],
        interval_seconds: float,
        timeout_seconds: float,
        heard: Callable[[Any], None] = lambda value: None,
        core_ratio: float = 1.0,
    ) -> None:
        """It is read every `interval_seconds`, less often where it would take more than `core_ratio` of a core.

        At the longest every ten seconds: what it says must not grow old.
        """
        self.name = name
        self._core_ratio = core_ratio
        self.read, self._heard = read, heard
        self._interval_seconds, self._timeout_seconds = interval_seconds, timeout_seconds
        self._begun: float | None = None  # the reading that goes on, monotonic seconds
        self._last: _Outcome | None = None
        self._asked: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()

    def start(self) -> None:
        """Read from now on. The thread ends with the process, even if it hangs."""
        threading.Thread(target=self._run, daemon=True, name=f"zmon-{self.name}").start()

    def stop(self) -> None:
        """Read no more."""
        self._asked.put(None)

    def ask(self, question: Callable[[], T]) -> Future[T]:
        """Have a question answered by the thread that reads, between two readings."""
        answer: Future[T] = Future()

        def run() -> None:
            if answer.set_running_or_notify_cancel():
                try:
                    answer.set_result(question())
                except BaseException as error:  # it must not end the thread that looks
                    answer.set_exception(error)

        self._asked.put(run)
        return answer

    @property
    def value(self) -> Any:
        """What it says; None unless it is up."""
        now = self._now()
        return now.value if now is not None and now.status.up else None

    @property
    def status(self) -> SourceStatus | None:
        """How it is doing; None before its first reading is done."""
        now = self._now()
        return None if now is None else now.status

    @property
    def down_since(self) -> float | None:
        """Unix time; None while it is up or there is nothing to read."""
        now = self._now()
        return None if now is None else now.down_since

    def _now(self) -> _Outcome | None:
        begun, last = self._begun, self._last
        seconds = 0.0 if begun is None else time.monotonic() - begun
        return self._after(last, seconds, self._late(), ()) if seconds > self._timeout_seconds else last

    def _late(self) -> TimeoutError:
        return TimeoutError(f"it does not answer within {self._timeout_seconds:g} s")

    def _run(self) -> None:
        going = True
        while going:
            begun, used = time.monotonic(), time.thread_time()
            self._begun = begun
            value, dropped, error = self._outcome()
            seconds = time.monotonic() - begun
            if error is None and seconds > self._timeout_seconds:
                value, dropped, error = None, (), self._late()
            self._last = self._after(self._last, seconds, error, dropped, value)
            self._begun = None
            if error is None:
                self._heard(value)
            pause = ABSENT_SECONDS if self._last.status.absent else self._interval_seconds
            affordable = (time.thread_time() - used) / self._core_ratio
            going = self._answer(time.monotonic() + max(pause, min(affordable, LONGEST_PAUSE_SECONDS)))

    def _outcome(self) -> tuple[Any, tuple[str, ...], BaseException | None]:
        try:
            value, dropped = self.read()
        except BaseException as error:  # a library that calls sys.exit() must not end the thread unseen
            return None, (), error
        return value, dropped, None

    def _answer(self, until: float) -> bool:
        """Answer questions until then; False when told to stop."""
        while (seconds := until - time.monotonic()) > 0:
            with contextlib.suppress(queue.Empty):
                question = self._asked.get(timeout=seconds)
                if question is None:
                    return False
                self._begun = time.monotonic()
                question()
                self._begun = None
        return True

    def _after(
        self,
        before: _Outcome | None,
        seconds: float,
        error: BaseException | None,
        dropped: tuple[str, ...],
        value: Any = None,
    ) -> _Outcome:
        absent = isinstance(error, SourceUnavailable)
        failed = error is not None and not absent
        was = before.status if before else SourceStatus(self.name, True, False, 0.0, None, 0, None)
        since = before.down_since if before else None
        return _Outcome(
            SourceStatus(
                name=self.name,
                up=error is None,
                absent=absent,
                duration_seconds=seconds,
                last_success_time=time.time() if error is None else was.last_success_time,
                num_errors=was.num_errors + failed,
                error=None if error is None else one_line(error),
                num_dropped=was.num_dropped + len(dropped),
                dropped=dropped[:_DROPPED_SAID],
            ),
            value,
            (since or time.time() - seconds) if failed else None,
        )


def one_line(error: BaseException) -> str:
    """What went wrong, whatever an exception is made of."""
    try:
        said = " ".join(str(error).split())[:_LINE]
    except Exception:
        said = ""
    return said if said and isinstance(error, Exception) else f"{type(error).__name__} {said}".strip()


def news(before: SourceStatus | None, now: SourceStatus) -> str | None:
    """What the log should say of a source, given how it was when the log last spoke of it."""
    if now.absent:
        return None if before and before.absent else f"source {now.name} is absent: {now.error}"
    if not now.up:
        return None if before and before.error == now.error else f"source {now.name} is down: {now.error}"
    if now.dropped and (before is None or before.dropped != now.dropped):
        return f"source {now.name} left out: {'; '.join(now.dropped)}"
    return f"source {now.name} is up" if before and not before.up else None
