"""Play the agents of a recording until a signal: `python -m zmon.stack.replay NAME BEGIN PORT …`, a port for each host.

BEGIN is the unix time at which the recording begins; it may have begun before.
"""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import Sequence

from aiohttp import web

from zmon.stack.replay import LOOPBACK, load
from zmon.stack.replay.agent import ReplayedAgent
from zmon.stack.replay.host import RecordedHost


async def play(name: str, begin: float, ports: Sequence[int]) -> None:
    """Answer as the agents of a recording until SIGTERM or SIGINT."""
    recording, stop = load(name), asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    runners = []
    for host, port in zip(recording.hosts, ports, strict=True):
        agent = ReplayedAgent(RecordedHost(recording, host), begin)
        runners.append(web.AppRunner(agent.app(), access_log=None, handler_cancellation=True, shutdown_timeout=0.5))
        await runners[-1].setup()
        await web.TCPSite(runners[-1], LOOPBACK, port, reuse_address=True).start()
    await stop.wait()
    await asyncio.gather(*(runner.cleanup() for runner in runners))


if __name__ == "__main__":
    asyncio.run(play(sys.argv[1], float(sys.argv[2]), [*map(int, sys.argv[3:])]))
