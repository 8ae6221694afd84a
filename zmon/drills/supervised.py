"""The stack of one host in a process of its own, so that it is taken down in order however the drill ends.

It is `zmon up` without a dashboard. It stops when its stdin is closed or somebody signals, and ends what is left of the
jobs in its folder. `python -m zmon.drills.supervised FOLDER WEBHOOK`; once all parts are healthy FOLDER/ready.json
tells where they are.
"""

from __future__ import annotations

import asyncio
import json
import signal
import sys
from dataclasses import asdict
from pathlib import Path

from zmon.drills.faults import cgroups
from zmon.drills.launched import kill_all
from zmon.errors import ZmonError
from zmon.stack import Stack, StackConfig

HOST = "drill-host"


class Supervised(Stack):
    """The parts, in a folder of the drill."""

    has_dashboard = False

    def __init__(self, folder: Path, webhook: str, host: str = HOST) -> None:
        config = StackConfig(folder / "data", folder / "boxes", host, webhook)
        super().__init__(config, lambda line: print(line, flush=True))


def told_to_stop() -> asyncio.Event:
    """Set once stdin is closed or somebody signals; what else is signalled then changes nothing."""
    stop, loop = asyncio.Event(), asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        loop.add_signal_handler(number, stop.set)

    def closed() -> None:
        loop.remove_reader(sys.stdin.fileno())
        stop.set()

    loop.add_reader(sys.stdin.fileno(), closed)
    return stop


async def stand(stack: Stack, folder: Path, stop: asyncio.Event, **told: object) -> None:
    """From the start of the stack until it is told to stop. Raises PartFailed where it does not work."""
    try:
        await stack.start()
        ready, stopped = asyncio.ensure_future(stack.ready()), asyncio.ensure_future(stop.wait())
        await asyncio.wait((ready, stopped), return_when=asyncio.FIRST_COMPLETED)
        if ready.done():
            ready.result()
            new = folder / "ready.new"
            new.write_text(json.dumps({"urls": asdict(stack.urls), **told}))
            new.rename(folder / "ready.json")
        await stopped
        ready.cancel()
    finally:
        await asyncio.to_thread(kill_all, folder)
        await stack.stop()
        cgroups.remove_leftovers()


async def run(folder: Path, webhook: str) -> None:
    """One host."""
    stop = told_to_stop()
    await stand(Supervised(folder, webhook), folder, stop)


if __name__ == "__main__":
    try:
        asyncio.run(run(Path(sys.argv[1]), sys.argv[2]))
    except ZmonError as error:
        sys.exit(str(error))
