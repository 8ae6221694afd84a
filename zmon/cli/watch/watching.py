"""The thread of `zmon watch` that watches the command, and the wait for it.

The main thread only waits and passes signals on, so that no import and no disk delays a signal.
"""

from __future__ import annotations

import contextlib
import os
import queue
import signal
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NoReturn

from zmon.cli.watch.child import Child
from zmon.cli.watch.launch import Launch, forget
from zmon.errors import BoxUnavailable
from zmon.notify import Recipient

UNWATCHED = 3  # exit code with --fail-on: nothing was watched
_FLUSH_SECONDS = 2.0  # until stderr has taken the card
_LONGEST_END_SECONDS = 15.0  # agent and hub end within some seconds; the command has ended, and somebody waits
_MAX_WAITING = 32  # messages; a person does not read more at once
_STDERR = 2


class Messages(threading.Thread):
    """The thread that writes to stderr, and may wait for a reader. The job has the same stderr, and never waits.

    If nobody reads it, later messages are dropped.
    """

    def __init__(self) -> None:
        super().__init__(name="zmon-messages", daemon=True)
        self._waiting: queue.Queue[bytes | None] = queue.Queue(_MAX_WAITING)

    def say(self, text: str) -> None:
        """Write a text later; drop it if too many are waiting."""
        with contextlib.suppress(queue.Full):
            self._waiting.put_nowait(text.encode("utf-8", "replace"))

    def close(self, seconds: float) -> None:
        """Wait until all is written, for this time at most."""
        with contextlib.suppress(queue.Full):
            self._waiting.put_nowait(None)
        self.join(seconds)

    def run(self) -> None:
        # A terminal may stop the group of a background process that writes (stty tostop), and with it the job.
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTTOU})
        while (text := self._waiting.get()) is not None:
            try:
                while text:
                    text = text[os.write(_STDERR, text) :]
            except OSError:  # nobody will read it any more
                return


@dataclass(frozen=True)
class Options:
    """The options of a watch."""

    report: Path | None = None  # where the report is written as well
    json: Path | None = None
    quiet: bool = False  # nothing is written to stderr
    output: str = ""  # the file that the command writes to, while a screen has the terminal; "": there is no screen
    fail_on: str | None = None  # the severity of a finding that is a failure
    recipients: tuple[Recipient, ...] = ()  # of notices


@dataclass
class WatchedCommand:
    """One run of a command under watch, and what its threads tell each other."""

    command: Sequence[str]
    child: Child
    launch: Launch
    root: Path | BoxUnavailable  # the folder of this user's boxes, or why there can be none
    began: float  # unix seconds
    options: Options = field(default_factory=Options)
    exit_code: int = UNWATCHED  # what --fail-on makes of the end, if the command itself succeeded
    messages: Messages = field(default_factory=Messages)
    ended: threading.Event = field(default_factory=threading.Event)  # the command has ended
    at_once: threading.Event = field(default_factory=threading.Event)  # somebody waits: do not wait for a judgement


def watch(run: WatchedCommand) -> NoReturn:
    """Watch the command until it ends, and end as it does. Nothing that fails here may change how it ends."""
    run.messages.start()
    thread = threading.Thread(target=_watch, args=(run,), name="zmon-watch", daemon=True)
    thread.start()
    run.child.wait()
    if run.child.refused:
        run.at_once.set()
    run.ended.set()
    deadline = time.monotonic() + _LONGEST_END_SECONDS
    while thread.is_alive() and time.monotonic() < deadline:
        thread.join(0.05)
        if run.child.is_signalled():
            run.at_once.set()
    if thread.is_alive() and not run.options.quiet:
        run.messages.say(f"zmon: no card: zmon did not judge the end of the command in {_LONGEST_END_SECONDS:g} s\n")
    run.messages.close(_FLUSH_SECONDS)
    if isinstance(run.root, Path):
        forget(run.launch, run.root)
    run.child.end_like_it(run.exit_code if run.options.fail_on else 0)


def _watch(run: WatchedCommand) -> None:
    try:
        from zmon.cli.watch.observer import observe  # with agent and hub, which takes longer than many commands

        lines = observe(run)
    except BaseException as error:  # of any kind: the command must still end as it does
        run.ended.wait()
        lines = [f"zmon: the command was not watched: {type(error).__name__}: {error}. zmon doctor checks this node"]
    if lines and not run.child.refused and not run.options.quiet:
        run.messages.say("\n".join(lines) + "\n")
