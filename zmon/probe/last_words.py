"""Records the last words of a rank, to distinguish the rank that died first from its victims.

An uncaught exception and a normal exit are recorded in Python. SIGTERM is recorded by `faulthandler`, whose handler is
C code: it appends the Python stack to the box at once, and then the signal has its usual effect. A handler in Python
would run only when the interpreter runs again. In a rank that waits inside a collective this never happens, so the job
could not be cancelled. `faulthandler` does not record who sent the signal; `signal_sender.c` does.

Last words have the origin of an exception. A rank whose peer is gone dies of an error that a collective raises. A rank
whose storage is gone may die of an error with the same text. The traceback distinguishes them, also if the job wraps
the error into one of its own.
"""

from __future__ import annotations

import atexit
import contextlib
import faulthandler
import functools
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from multiprocessing.util import Finalize
from traceback import walk_tb
from types import CodeType, TracebackType
from typing import Any, NamedTuple, NoReturn

from zmon.box import layout
from zmon.probe.rank import DONE, INIT, RankTimeline
from zmon.schema.names import place_in_code

_MAX_CHAIN = 16  # exceptions that are followed from effect to cause; a chain may be a circle
_LIBRARY = os.path.dirname(os.__file__)  # noqa: PTH120 - pathlib is slow to import
_ZMON = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))  # noqa: PTH100, PTH120
_PACKAGES = (f"{os.sep}site-packages{os.sep}", f"{os.sep}dist-packages{os.sep}")
_COLLECTIVES = ("distributed_c10d.py", "_functional_collectives.py")  # files of torch/distributed
# Functions in these files that connect ranks but are not collectives. An error in them is about the rendezvous.
_SETUP = ("init_process_group", "new_group", "_new_group_with_tag", "_new_process_group_helper", "split_group")

# Names of zmon's own wrappers: of collectives, and of the wait for an asynchronous one (zmon/probe/hooks/replacing.py).
_WRAPPER_FILE, _WRAPPERS = "<zmon", ("collective", "wait")

# Written instead of a stack, or before one, if the kernel gives SIGTERM to another thread than the main one.
_ELSEWHERE = b"\n  in another thread than the main one\n"

RecordResult = Callable[[str, BaseException | None], None]


def record_last_words(timeline: RankTimeline) -> RecordResult:
    """Record how this process ends; handlers that the job installs before or after this call keep working.

    The returned function records how the job's function ended in a framework that runs it and catches its exceptions:
    the name of the framework, and the exception. With no name, what it recorded is forgotten: the job goes on.
    """
    words = _LastWords(timeline)
    sys.excepthook, sys.exit = words.on_exception, words.wrap_exit(sys.exit)
    atexit.register(words.on_exit)
    threading._shutdown = words.wrap_shutdown(threading._shutdown)  # type: ignore[attr-defined]
    Finalize(None, words.on_exit, exitpriority=0)  # children of multiprocessing run finalizers but no atexit functions
    tail = timeline.box.tail()
    if signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
        faulthandler.register(signal.SIGTERM, file=tail, all_threads=False, chain=True)
        _record_sender(tail, layout.TRACE + _ELSEWHERE)
    else:
        _record_sender(tail)
    signal.signal = _wrap_signal(signal.signal, tail)
    return words.record_result


class _LastWords:
    """The last words of one rank: the first end that is recorded counts. A worker forked from the rank records none."""

    def __init__(self, timeline: RankTimeline) -> None:
        self._timeline, self._write = timeline, timeline.box.last_words
        self._rank_pid = os.getpid()
        self._previous_hook = sys.excepthook
        self._is_recorded = False
        self._has_result = False  # a framework has reported how the job's function ended
        self._last_exit: SystemExit | None = None  # of the last sys.exit
        self._since_at_exit = 0  # `timeline.since` at that moment

    def record_result(self, runner: str, error: BaseException | None) -> None:
        if runner:
            self._is_recorded, self._has_result = False, True
            self._record("exit" if error is None else "exception", error, runner)
        elif self._has_result and os.getpid() == self._rank_pid:  # the job goes on
            self._is_recorded = self._has_result = False
            self._write(0, "")

    def on_exception(self, kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        self._record("exception", error)
        self._previous_hook(kind, error, trace)

    def wrap_exit(self, previous_exit: Callable[[Any], NoReturn]) -> Callable[..., NoReturn]:
        """Wrap sys.exit, to remember its exception for `on_exit`."""

        @functools.wraps(previous_exit)
        def exit(status: str | int | None = None, /) -> NoReturn:
            self._last_exit, self._since_at_exit = SystemExit(status), self._timeline.since
            previous_exit(status)

        return exit

    def wrap_shutdown(self, shutdown: Callable[[], None]) -> Callable[[], None]:
        """Wrap the function that Python calls at the end of the program, and which waits for threads.

        The exit handlers come after it, zmon's own as the last one, and one of the others may hang. A rank that trains
        in another thread may go on.
        """

        @functools.wraps(shutdown)
        def record_and_wait() -> None:
            if self._timeline.activity != INIT and not self._timeline.trains_elsewhere():
                self.on_exit()
            shutdown()

        return record_and_wait

    def on_exit(self) -> None:
        # In a child of multiprocessing the exception is still being handled. Elsewhere Python stores it in
        # sys.last_value, which is needed if the job replaced our excepthook. A SystemExit is not stored there, so ours
        # is used, but only if the rank did nothing after it. Otherwise the job caught it and went on.
        error = sys.exc_info()[1] or getattr(sys, "last_value", None)
        if error is None and self._since_at_exit == self._timeline.since:
            error = self._last_exit
        if error is None or (isinstance(error, SystemExit) and not error.code):
            self._record("exit", None)
        else:
            self._record("exception", error)

    def _record(self, kind: str, error: BaseException | None, runner: str = "") -> None:
        if self._is_recorded or os.getpid() != self._rank_pid:
            return
        with contextlib.suppress(Exception):
            if error is None:
                self._write(time.time_ns(), kind, runner)
            else:
                self._write(time.time_ns(), kind, type_name(error), _message(error), *origin_of(error))
            if kind == "exit":
                if self._timeline.own_thread_has_ended():  # the rank trained in another thread than the one that exits
                    self._timeline.adopt_thread()
                self._timeline.turn_to(DONE)
            self._is_recorded = True


def _wrap_signal(set_handler: Callable[..., Any], tail: int) -> Callable[..., Any]:
    """Wrap signal.signal, so that the sender is also recorded if the job sets a handler of its own afterwards."""
    rank_pid = os.getpid()

    @functools.wraps(set_handler)
    def set_and_record(*args: Any, **kwargs: Any) -> Any:
        previous = set_handler(*args, **kwargs)
        if os.getpid() == rank_pid:  # not in a worker forked from the rank
            _record_sender(tail)
        return previous

    return set_and_record


def _record_sender(tail: int, elsewhere: bytes = b"") -> None:
    """Let the C module write who sent SIGTERM; without the module, or without a handler, the sender stays unknown.

    `elsewhere`: what it also writes if the kernel gives the signal to another thread than the main one. It is empty for
    a handler of the job, which runs in the main thread all the same, and may let the rank go on.
    """
    with contextlib.suppress(ImportError, OSError, ValueError):
        from zmon.probe._signal_sender import record_sender

        record_sender(signal.SIGTERM, tail, layout.SENDER_LINE, elsewhere)


def forget_last_words() -> None:
    """Unregister the SIGTERM handler in a forked worker, unless the job has installed its own since then."""
    if signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
        faulthandler.unregister(signal.SIGTERM)


class Origin(NamedTuple):
    """The origin of an exception."""

    where: str  # the innermost frame of the job's own code, such as `load_batch() at train.py:88`; "": there is none
    root: str  # the exception at the end of the chain of causes, as `type: message`; "": the exception has no cause
    in_collective: bool  # the exception, or one of its causes, was raised inside a collective


def origin_of(error: BaseException) -> Origin:
    """Return the origin of an exception that was raised."""
    chain = [*_chain(error)]
    root = chain[-1]
    return Origin(
        where=next(filter(None, map(_own_frame, reversed(chain))), ""),
        root="" if root is error else f"{type_name(root)}: {_message(root)}",
        in_collective=any(map(_is_in_collective, chain)),
    )


def type_name(error: BaseException) -> str:
    """Return the full name of the type of an exception: `builtins.ValueError`."""
    return f"{type(error).__module__}.{type(error).__qualname__}"


def _message(error: BaseException) -> str:
    """Return the message of an exception; "" if its class, which may be the job's own, fails to make one."""
    with contextlib.suppress(Exception):
        return str(error)
    return ""


def _chain(error: BaseException) -> Iterator[BaseException]:
    """Yield the exception, then its cause, then the cause of that cause, and so on."""
    current: BaseException | None = error
    for _ in range(_MAX_CHAIN):
        if current is None:
            return
        yield current
        current = current.__cause__ or (None if current.__suppress_context__ else current.__context__)


def _own_frame(error: BaseException) -> str:
    """Return the place of the innermost frame of the job's own code; "" if there is none."""
    place = ""
    for frame, line in walk_tb(error.__traceback__):
        if _is_own(frame.f_code):
            place = place_in_code(frame.f_code.co_name, os.path.basename(frame.f_code.co_filename), line)  # noqa: PTH119
    return place


def _is_own(code: CodeType) -> bool:
    """Return True for code of the job, and False for a library or zmon."""
    path = code.co_filename
    return not path.startswith((_LIBRARY, _ZMON, _WRAPPER_FILE, "<frozen")) and not any(p in path for p in _PACKAGES)


def _is_in_collective(error: BaseException) -> bool:
    """Return True if the exception passed through zmon's wrapper of a collective, or through torch's own function."""
    codes = [frame.f_code for frame, _ in walk_tb(error.__traceback__)]
    if any(code.co_filename.startswith(_WRAPPER_FILE) and code.co_name in _WRAPPERS for code in codes):
        return True
    names = [code.co_name for code in codes if os.path.basename(code.co_filename) in _COLLECTIVES]  # noqa: PTH119
    return bool(names) and not any(name in _SETUP for name in names)
