"""Runs the thread that watches the command, and waits for the command and then for that thread.

The main thread only waits and passes signals on, so that no import and no disk delays a signal.
"""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import NoReturn

from zmon.cli.watch.launch import remove_lock_file
from zmon.cli.watch.watched_command import WatchedCommand

_FLUSH_SECONDS = 2.0  # until stderr has taken the card
_LONGEST_END_SECONDS = 15.0  # for agent and hub, which need some seconds; meanwhile somebody may wait for the command
_SIGNAL_SECONDS = 0.05  # between two checks for signals after the command has ended


def watch(run: WatchedCommand) -> NoReturn:
    """Watch the command until it ends, and end as it does. Nothing that fails here may change how it ends."""
    run.messages.start()
    thread = threading.Thread(target=_watch, args=(run,), name="zmon-watch", daemon=True)
    thread.start()
    run.child.wait()
    if run.child.refused:
        run.hurry.set()
    run.ended.set()
    deadline = time.monotonic() + _LONGEST_END_SECONDS
    while thread.is_alive() and time.monotonic() < deadline:
        thread.join(_SIGNAL_SECONDS)
        if run.child.take_signals():  # somebody has pressed Ctrl-C, or ends watch
            run.hurry.set()
    if thread.is_alive() and not run.options.quiet:
        run.messages.say(f"zmon: no card: zmon did not judge the end of the command in {_LONGEST_END_SECONDS:g} s\n")
    run.messages.close(_FLUSH_SECONDS)
    if isinstance(run.root, Path):
        remove_lock_file(run.launch, run.root)
    run.child.end_as_command(code_of_success=run.exit_code if run.options.fail_on else 0)


def _watch(run: WatchedCommand) -> None:
    """Watch the command, and write its card to stderr."""
    try:
        from zmon.cli.watch.observer import observe  # imports agent and hub, which takes longer than many commands

        lines = observe(run)
    except BaseException as error:  # of any kind: the command must still end as it does
        run.ended.wait()
        lines = [f"zmon: the command was not watched: {type(error).__name__}: {error}. zmon doctor checks this node"]
    if lines and not run.child.refused and not run.options.quiet:
        run.messages.say("\n".join(lines) + "\n")
