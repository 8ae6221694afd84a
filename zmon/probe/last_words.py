"""Records the last words of a rank, to distinguish the rank that died first from its victims.

An uncaught exception and a normal exit are recorded in Python. SIGTERM is recorded by `faulthandler`, whose handler is
C code: it appends the Python stack to the box at once, and then the signal has its usual effect. A handler in Python
would run only when the interpreter runs again. In a rank that waits inside a collective this never happens, so the job
could not be cancelled. Neither of them tells who sent the signal; `signal_sender.c` does.
"""

from __future__ import annotations

import atexit
import contextlib
import faulthandler
import functools
import os
import signal
import sys
import time
from collections.abc import Callable
from multiprocessing.util import Finalize
from types import TracebackType
from typing import Any, NoReturn

from zmon.box import layout
from zmon.probe.origin import origin_of, type_name
from zmon.probe.rank import DONE, RankTimeline


def record_last_words(timeline: RankTimeline) -> None:
    """Record how this process ends; handlers that the job installs before or after this call keep working."""
    previous_hook, previous_exit = sys.excepthook, sys.exit
    recorded, rank = False, os.getpid()
    write = timeline.box.last_words
    leaving: tuple[SystemExit, int] | None = None  # the exception of sys.exit, and `timeline.since` at that moment

    def record(kind: str, error: BaseException | None) -> None:
        nonlocal recorded
        if recorded or os.getpid() != rank:  # not in a worker forked from the rank
            return
        with contextlib.suppress(Exception):
            if error is None:
                write(time.time_ns(), kind)
            else:
                write(time.time_ns(), kind, type_name(error), str(error), *origin_of(error))
            if kind == "exit":
                timeline.turn_to(DONE)
            recorded = True

    def on_exception(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        record("exception", error)
        previous_hook(kind, error, trace)

    @functools.wraps(previous_exit)
    def exit(status: str | int | None = None, /) -> NoReturn:
        nonlocal leaving
        leaving = SystemExit(status), timeline.since
        previous_exit(status)

    def on_exit() -> None:
        # In a child of multiprocessing the exception is still being handled. Elsewhere Python stores it in
        # sys.last_value, which is needed if the job replaced our excepthook. A SystemExit is not stored there, so ours
        # is used, but only if the rank did nothing after it. Otherwise the job caught it and went on.
        error = sys.exc_info()[1] or getattr(sys, "last_value", None)
        if error is None and leaving is not None and leaving[1] == timeline.since:
            error = leaving[0]
        if error is None or (isinstance(error, SystemExit) and not error.code):
            record("exit", None)
        else:
            record("exception", error)

    sys.excepthook, sys.exit = on_exception, exit
    atexit.register(on_exit)
    Finalize(None, on_exit, exitpriority=0)  # children of multiprocessing run finalizers but no atexit functions
    tail = timeline.box.tail()
    if signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
        faulthandler.register(signal.SIGTERM, file=tail, all_threads=False, chain=True)
    _record_sender(tail)
    signal.signal = _wrap_signal(signal.signal, tail)


def _wrap_signal(set_handler: Callable[..., Any], tail: int) -> Callable[..., Any]:
    """Wrap signal.signal, so that the sender is also recorded if the job sets a handler of its own afterwards."""
    rank = os.getpid()

    @functools.wraps(set_handler)
    def set_and_record(*args: Any, **kwargs: Any) -> Any:
        previous = set_handler(*args, **kwargs)
        if os.getpid() == rank:  # not in a worker forked from the rank
            _record_sender(tail)
        return previous

    return set_and_record


def _record_sender(tail: int) -> None:
    """Let the C module write who sent SIGTERM, if it has a handler; where it could not be built, that is unknown."""
    with contextlib.suppress(ImportError, OSError, ValueError):
        from zmon.probe._signal_sender import record_sender

        record_sender(signal.SIGTERM, tail, layout.SENDER_LINE)


def forget_last_words() -> None:
    """Unregister the SIGTERM handler in a forked worker, unless the job has installed its own since then."""
    if signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
        faulthandler.unregister(signal.SIGTERM)
