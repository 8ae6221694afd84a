"""Functions that `zmon up` and `zmon demo` share: they handle stop signals and print messages of the stack."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable
from typing import Any

from rich.console import Console


def stop_event() -> asyncio.Event:
    """Return an event that SIGINT and SIGTERM set."""
    stop = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    return stop


async def unless_stopped(work: Any, stop: asyncio.Event) -> None:
    """Wait for the work; cancel it when `stop` is set."""
    task, stopped = asyncio.ensure_future(work), asyncio.ensure_future(stop.wait())
    await asyncio.wait((task, stopped), return_when=asyncio.FIRST_COMPLETED)
    stopped.cancel()
    if task.done():
        task.result()
    else:
        task.cancel()


def announcer(console: Console) -> Callable[[str], None]:
    """Return a function that prints a message of the stack to the terminal."""
    return lambda line: console.print(f"zmon: {line}", highlight=False, markup=False, soft_wrap=True)
