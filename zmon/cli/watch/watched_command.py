"""The command under `zmon watch`, with the options of the watch and the events that its threads set."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from zmon.cli.watch.child import Child
from zmon.cli.watch.launch import Launch
from zmon.cli.watch.messages import Messages
from zmon.errors import BoxUnavailable
from zmon.notify import Recipient

UNWATCHED = 3  # exit code with --fail-on: nothing was watched


@dataclass(frozen=True)
class Options:
    """The options of a watch."""

    report: Path | None = None  # a second place for the report, beside the folder of the job
    json: Path | None = None  # where the card, the job and its findings are written as JSON
    quiet: bool = False  # nothing is written to stderr
    output: str = ""  # the file that the command writes to while the screen has the terminal; "": there is no screen
    fail_on: str | None = None  # the least severity of a finding that is a failure
    recipients: tuple[Recipient, ...] = ()  # of notices


@dataclass
class WatchedCommand:
    """One run of a command under watch."""

    command: Sequence[str]
    child: Child
    launch: Launch
    root: Path | BoxUnavailable  # the folder of this user's boxes, or why there can be none
    began: float  # unix seconds
    options: Options = field(default_factory=Options)
    exit_code: int = UNWATCHED  # with --fail-on, if the command itself succeeded
    messages: Messages = field(default_factory=Messages)
    ended: threading.Event = field(default_factory=threading.Event)  # the command has ended
    hurry: threading.Event = field(default_factory=threading.Event)  # end without waiting for the hub's judgement
