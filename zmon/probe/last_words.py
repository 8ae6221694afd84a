"""What a rank says before it goes, so that the death of one can be told from the deaths it causes.

An uncaught exception and a plain exit are noted by Python itself. SIGTERM is noted by `faulthandler`, whose
handler is C code: it appends the Python stack to the box at once and then lets the signal do what it would
have done. A handler in Python would run only when the interpreter gets a turn, which in a rank that waits
inside a collective is never, and would so keep a job from being cancelled.
"""

from __future__ import annotations

import atexit
import contextlib
import faulthandler
import functools
import os
import signal
import sys
from multiprocessing.util import Finalize
from types import TracebackType
from typing import NoReturn

from zmon.probe.rank import DONE, RankTimeline


def record_last_words(timeline: RankTimeline) -> None:
    """Note how this process ends. Handlers that the job installed before, or installs later, keep working."""
    before, leave = sys.excepthook, sys.exit
    spoken, rank = False, os.getpid()
    leaving: tuple[SystemExit, int] | None = None  # by sys.exit, and the rank's last mark before

    def note(kind: str, error: BaseException | None) -> None:
        nonlocal spoken
        if spoken or os.getpid() != rank:  # a worker forked from the rank is not the rank
            return
        with contextlib.suppress(Exception):
            cls = type(error)
            name = "" if error is None else f"{cls.__module__}.{cls.__qualname__}"
            timeline.last_words(kind, name, "" if error is None else str(error))
            if kind == "exit":
                timeline.turn_to(DONE)
            spoken = True

    def on_exception(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        note("exception", error)
        before(kind, error, trace)

    @functools.wraps(leave)
    def exit(status: str | int | None = None, /) -> NoReturn:
        nonlocal leaving
        leaving = SystemExit(status), timeline.since
        leave(status)

    def on_exit() -> None:
        # In a child of multiprocessing the exception is still on its way; elsewhere Python keeps it, should an
        # excepthook of the job's own have replaced ours. It keeps no SystemExit: one that somebody caught, and the rank
        # went on, was none.
        error = sys.exc_info()[1] or getattr(sys, "last_value", None)
        if error is None and leaving is not None and leaving[1] == timeline.since:
            error = leaving[0]
        if error is None or (isinstance(error, SystemExit) and not error.code):
            note("exit", None)
        else:
            note("exception", error)

    sys.excepthook, sys.exit = on_exception, exit
    atexit.register(on_exit)
    Finalize(None, on_exit, exitpriority=0)  # a child of multiprocessing runs these and no atexit
    if signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
        faulthandler.register(signal.SIGTERM, file=timeline.box.tail(), all_threads=False, chain=True)


def forget_last_words() -> None:
    """In a forked worker: its end is not the rank's. A handler that the job installed since then stays."""
    if signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
        faulthandler.unregister(signal.SIGTERM)
