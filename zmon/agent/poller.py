"""Read a source again and again in a thread of its own, and know whether it is up.

A source that hangs does not delay the others, and gets no second thread. The last value counts only while the source is
up. A value that arrives after the timeout is dropped, since it describes a past moment.
"""

from __future__ import annotations

import contextlib
import itertools
import queue
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from enum import IntEnum
from typing import Any, NamedTuple, TypeVar

from zmon.agent.sources import Reading
from zmon.errors import SourceUnavailable
from zmon.format import plain
from zmon.schema.host import SourceStatus

T = TypeVar("T")
_MAX_DROPPED = 8  # things left out by a source that its status names; it only counts the others
_MAX_ERROR = 300  # characters
_NOTHING = Reading(None)
ABSENT_SECONDS = 10.0  # time between two reads of a source that is absent from this machine
LONGEST_PAUSE_SECONDS = 10.0  # longest time between two reads of an expensive source


class _Outcome(NamedTuple):
    """The status of a source after a read, and the value that it read, which is None unless the source is up."""

    status: SourceStatus | None = None  # None: it was not read yet
    value: Any = None
    down_since: float | None = None  # unix seconds


class QuestionOrder(IntEnum):
    """The order in which questions are answered."""

    STOP = 0
    NOW = 1  # metrics, suspects, and the snapshot that the hub asks for in each pass
    HISTORY = 2  # one rank of a history


class Poller:
    """One source, its status, and its last value."""

    def __init__(
        self,
        name: str,
        read: Callable[[], Reading],
        interval_seconds: float,
        timeout_seconds: float,
        on_value: Callable[[Any], None] = lambda value: None,
        core_ratio: float = 1.0,
    ) -> None:
        """Read every `interval_seconds`, and less often if reading would take more than `core_ratio` of a core.

        A pause is never longer than LONGEST_PAUSE_SECONDS (or the interval), so that values do not grow old.
        """
        self.name = name
        self._core_ratio = core_ratio
        self.read, self._on_value = read, on_value
        self._interval_seconds, self._timeout_seconds = interval_seconds, timeout_seconds
        self._begun_at: float | None = None  # start of the read in progress, monotonic seconds
        self._last = _Outcome()
        # Questions with their order and a serial number: within one order, the first question is answered first.
        self._questions: queue.PriorityQueue[tuple[QuestionOrder, int, Callable[[], None] | None]] = (
            queue.PriorityQueue()
        )
        self._numbers = itertools.count()

    def start(self) -> None:
        """Start the thread that reads. It ends with the process, even if it hangs."""
        threading.Thread(target=self._run, daemon=True, name=f"zmon-{self.name}").start()

    def stop(self) -> None:
        self._questions.put((QuestionOrder.STOP, next(self._numbers), None))

    def ask(self, question: Callable[[], T], order: QuestionOrder = QuestionOrder.NOW) -> Future[T]:
        """Call a function in the thread that reads, between two reads and before the questions of a later order."""
        answer: Future[T] = Future()

        def run() -> None:
            if answer.set_running_or_notify_cancel():
                try:
                    answer.set_result(question())
                except BaseException as error:  # the caller of `ask` gets it; it must not end the thread
                    answer.set_exception(error)

        self._questions.put((order, next(self._numbers), run))
        return answer

    @property
    def value(self) -> Any:
        """The last value; None unless the source is up."""
        return self._current().value

    @property
    def status(self) -> SourceStatus | None:
        """The status now; None before the first read is done."""
        return self._current().status

    @property
    def down_since(self) -> float | None:
        """The unix time at which the source went down; None while it is up or absent."""
        return self._current().down_since

    def _current(self) -> _Outcome:
        begun_at, last = self._begun_at, self._last
        seconds = 0.0 if begun_at is None else time.monotonic() - begun_at
        if seconds <= self._timeout_seconds:
            return last
        return self._next_outcome(seconds, self._timeout_error(), _NOTHING)

    def _timeout_error(self) -> TimeoutError:
        return TimeoutError(f"it did not answer within {self._timeout_seconds:g} s")

    def _run(self) -> None:
        """Read again and again, and answer questions between two reads, until `stop` is called."""
        running = True
        while running:
            begun_at, cpu_begun_at = time.monotonic(), time.thread_time()
            self._begun_at = begun_at
            error: BaseException | None = None
            reading = _NOTHING
            try:
                reading = Reading(*self.read())  # fails here if the source returns anything else
            except BaseException as failure:  # also SystemExit: a library that calls sys.exit() must not end the thread
                error = failure
            seconds = time.monotonic() - begun_at
            if error is None and seconds > self._timeout_seconds:
                reading, error = _NOTHING, self._timeout_error()
            self._last = self._next_outcome(seconds, error, reading)
            self._begun_at = None
            if error is None:
                self._on_value(reading.value)
            pause = ABSENT_SECONDS if isinstance(error, SourceUnavailable) else self._interval_seconds
            core_pause = (time.thread_time() - cpu_begun_at) / self._core_ratio  # stays below the share of a core
            running = self._answer(time.monotonic() + max(pause, min(core_pause, LONGEST_PAUSE_SECONDS)))

    def _answer(self, until: float) -> bool:
        """Answer questions until the monotonic time `until`; return False if `stop` was called."""
        while (seconds := until - time.monotonic()) > 0:
            with contextlib.suppress(queue.Empty):
                _, _, question = self._questions.get(timeout=seconds)
                if question is None:
                    return False
                self._begun_at = time.monotonic()
                question()
                self._begun_at = None
        return True

    def _next_outcome(self, seconds: float, error: BaseException | None, reading: Reading) -> _Outcome:
        """Return the outcome of a read that has taken `seconds`, with the counts of all reads so far."""
        last = self._last
        is_absent = isinstance(error, SourceUnavailable)
        is_down = error is not None and not is_absent
        earlier_success = last.status.last_success_time if last.status else None
        status = SourceStatus(
            name=self.name,
            up=error is None,
            absent=is_absent,
            duration_seconds=seconds,
            last_success_time=time.time() if error is None else earlier_success,
            num_errors=(last.status.num_errors if last.status else 0) + is_down,
            error=None if error is None else one_line(error),
            num_dropped=(last.status.num_dropped if last.status else 0) + len(reading.dropped),
            dropped=tuple(map(plain, reading.dropped[:_MAX_DROPPED])),
        )
        return _Outcome(status, reading.value, (last.down_since or time.time() - seconds) if is_down else None)


def one_line(error: BaseException) -> str:
    """Return the message of an exception in one line, even if its `str()` fails."""
    try:
        message = plain(" ".join(str(error).split())[:_MAX_ERROR])
    except Exception:  # a library's `__str__` may raise anything; the status then has the type alone
        message = ""
    return message if message and isinstance(error, Exception) else f"{type(error).__name__} {message}".strip()


def change_line(logged: SourceStatus | None, now: SourceStatus) -> str | None:
    """Return the log line for a change in a source's status, or None. `logged`: the status that was logged last."""
    if now.absent:
        return None if logged and logged.absent else f"source {now.name} is absent: {now.error}"
    if not now.up:
        return None if logged and logged.error == now.error else f"source {now.name} is down: {now.error}"
    if now.dropped and (logged is None or logged.dropped != now.dropped):
        return f"source {now.name} left out: {'; '.join(now.dropped)}"
    return f"source {now.name} is up" if logged and not logged.up else None
