"""The stack of `zmon demo --replay`: the recorded agents of one job, and everything that asks them."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Callable, Sequence

from zmon.stack import Stack, StackConfig
from zmon.stack.part import Part
from zmon.stack.ports import ReservedPort
from zmon.stack.replay import LOOPBACK, Recording
from zmon.stack.replay.history import fill

# The fault comes this long after the command. By then the pages have been open for some seconds, and show a job that
# trains; the hub has seen it as long.
HEALTHY_SECONDS = 12.0


class ReplayStack(Stack):
    """The parts of `zmon up`, with the agents of a recording instead of that of this machine."""

    def __init__(self, name: str, recording: Recording, config: StackConfig, say: Callable[[str], None]) -> None:
        self._name, self._recording = name, recording
        self.fault_time = time.time() + HEALTHY_SECONDS  # unix seconds
        self._further = [ReservedPort(0) for _ in recording.hosts[1:]]
        super().__init__(config, say)
        self._ports += self._further

    async def start(self) -> None:
        """Give Prometheus the history of the job, then start every part."""
        recording, urls = self._recording, self._all_urls
        later = self.fault_time - recording.fault - recording.began
        until = self.fault_time - HEALTHY_SECONDS
        addresses = {host.host: url for host, url in zip(recording.hosts, urls, strict=True)} | {"hub": self.urls.hub}
        instances = {name: url.removeprefix("http://") for name, url in addresses.items()}
        await asyncio.to_thread(fill, recording.history, later, until, instances, self._config.data_dir / "prometheus")
        await super().start()

    def _agents(self) -> list[Part]:
        """Return the one part that answers for all hosts; it is healthy while it answers for the first."""
        url = self.urls.agent
        begin = self.fault_time - self._recording.fault
        ports = [url.rsplit(":", 1)[1], *(str(port.number) for port in self._further)]
        command = [sys.executable, "-m", "zmon.stack.replay", self._name, repr(begin), *ports]
        return [Part("agent", command, url, f"{url}/healthz", self._config.data_dir / "logs" / "agent.log")]

    def _agent_urls(self, agents: Sequence[Part]) -> list[str]:
        return self._all_urls

    @property
    def _all_urls(self) -> list[str]:
        """The URLs of the agents, in the order of the hosts."""
        return [self.urls.agent, *(f"http://{LOOPBACK}:{port.number}" for port in self._further)]
