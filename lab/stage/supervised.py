"""Run the stack of one host in its own process, so that it ends in order even if the drill is killed.

It is `zmon up` without a dashboard. It stops when its stdin is closed or when it receives a signal, and then ends the
remaining processes of the jobs in its directory. Usage: `python -m lab.stage.supervised DIR WEBHOOK [POLICY]`; with a
policy of acts zmon acts. Once all parts are healthy, it writes their URLs to DIR/ready.json.
"""

from __future__ import annotations

import asyncio
import json
import signal
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from lab.faults import cgroups
from lab.stage.launched import kill_all
from zmon.errors import ZmonError
from zmon.stack import Stack, StackConfig

HOST = "drill-host"


class Supervised(Stack):
    """The parts of `zmon up` without a dashboard, in a directory of the drill."""

    has_dashboard = False

    def __init__(self, folder: Path, webhook: str, policy: Path | None) -> None:
        config = StackConfig(folder / "data", folder / "boxes", HOST, webhook, act_file=policy)
        super().__init__(config, lambda line: print(line, flush=True))


def stop_event() -> asyncio.Event:
    """Return an event that is set once stdin is closed or a signal arrives. Later signals are ignored."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        loop.add_signal_handler(number, stop.set)

    def stop_at_end_of_input() -> None:
        loop.remove_reader(sys.stdin.fileno())
        stop.set()

    loop.add_reader(sys.stdin.fileno(), stop_at_end_of_input)
    return stop


async def run_until(stop: asyncio.Event, stack: Stack, folder: Path, **details: object) -> None:
    """Start the stack, run it until `stop` is set, and end it. Raises PartFailed if it does not start.

    `details` are written to ready.json, beside the URLs.
    """
    try:
        await stack.start()
        ready, stopped = asyncio.ensure_future(stack.ready()), asyncio.ensure_future(stop.wait())
        await asyncio.wait((ready, stopped), return_when=asyncio.FIRST_COMPLETED)
        if ready.done():
            ready.result()
            new = folder / "ready.new"
            new.write_text(json.dumps({"urls": asdict(stack.urls), **details}))
            new.rename(folder / "ready.json")
        await stopped
        ready.cancel()
    finally:
        await asyncio.to_thread(kill_all, folder)
        await stack.stop()
        cgroups.remove_leftovers()


async def run(folder: Path, webhook: str, policy: Path | None) -> None:
    """Run the stack of one host until it is stopped."""
    stop = stop_event()
    await run_until(stop, Supervised(folder, webhook, policy), folder)


def arguments(words: Sequence[str]) -> tuple[Path, str, Path | None]:
    """Return the directory, the webhook and the policy of a command line."""
    folder, webhook, *policy = words
    return Path(folder), webhook, Path(policy[0]) if policy else None


if __name__ == "__main__":
    try:
        asyncio.run(run(*arguments(sys.argv[1:])))
    except ZmonError as error:
        sys.exit(str(error))
