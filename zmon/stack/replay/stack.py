"""The stack of `zmon demo --replay`: the recorded agents of one job, and everything that asks them.

Prometheus gets what it knew about the job before the fault, so that charts do not begin empty.
"""

from __future__ import annotations

import asyncio
import contextlib
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path

from zmon.errors import PartFailed
from zmon.stack import Stack, StackConfig, find_program, port_of
from zmon.stack.part import Part
from zmon.stack.ports import ReservedPort
from zmon.stack.replay import LOOPBACK, PastSeries, Recording

# From the command to the fault. When the fault comes, the dashboard has shown a job that trains for some seconds.
HEALTHY_SECONDS = 12.0
DATES_SUFFIX = "_timestamp_seconds"  # of the names of metrics whose values are unix times
_WRITE_TIMEOUT_SECONDS = 20.0  # promtool takes less than a second


class ReplayStack(Stack):
    """The parts of `zmon up`, with the agents of a recording instead of that of this machine."""

    def __init__(self, name: str, recording: Recording, config: StackConfig, say: Callable[[str], None]) -> None:
        self._name, self._recording = name, recording
        self.fault_time = time.time() + HEALTHY_SECONDS  # unix seconds
        self._begin = self.fault_time - recording.fault  # the unix time of the beginning of the recording
        self._other_ports = [ReservedPort(0) for _ in recording.hosts[1:]]
        super().__init__(config, say)
        self._ports += self._other_ports

    async def start(self) -> None:
        """Give Prometheus the history of the job, then start every part."""
        recording = self._recording
        shift_seconds = self._begin - recording.began
        until = self.fault_time - HEALTHY_SECONDS
        names = [*(host.host for host in recording.hosts), "hub"]
        urls = [*self._agent_urls, self.urls.hub]
        instances = {name: url.removeprefix("http://") for name, url in zip(names, urls, strict=True)}
        await asyncio.to_thread(
            write_history, recording.history, shift_seconds, until, instances, self._config.data_dir / "prometheus"
        )
        await super().start()

    def _agents(self) -> list[Part]:
        """Return the one part that answers for all hosts; it is healthy while it answers for the first."""
        ports = map(port_of, self._agent_urls)
        command = [sys.executable, "-E", "-P", "-m", "zmon.stack.replay.agent", self._name, repr(self._begin), *ports]
        return [self._part("agent", self.urls.agent, "/healthz", command)]

    @property
    def _agent_urls(self) -> list[str]:
        """The URLs of the agents, in the order of the hosts."""
        return [self.urls.agent, *(f"http://{LOOPBACK}:{port.number}" for port in self._other_ports)]


def write_history(
    history: Iterable[PastSeries], shift_seconds: float, until: float, instances: Mapping[str, str], folder: Path
) -> None:
    """Write the series into the folder of a Prometheus that does not run yet. Nothing is written without promtool.

    `shift_seconds`: by how much all times are later than in `history`. `until`: the unix time from which on Prometheus
    scrapes; later values are left out. `instances`: the address of each host and of `hub`.
    """
    try:
        promtool = find_program("promtool")
    except PartFailed:
        return
    page = folder.parent / "history.txt"
    page.write_text("".join(openmetrics(history, shift_seconds, until, instances)))
    command = [promtool, "tsdb", "create-blocks-from", "openmetrics", "--quiet", str(page), str(folder)]
    with contextlib.suppress(subprocess.TimeoutExpired):  # then the charts begin with the first scrape
        subprocess.run(command, capture_output=True, timeout=_WRITE_TIMEOUT_SECONDS, check=False)
    page.unlink()


def openmetrics(
    history: Iterable[PastSeries], shift_seconds: float, until: float, instances: Mapping[str, str]
) -> Iterator[str]:
    """Yield the lines of the file from which promtool makes the blocks; the parameters are those of `write_history`."""
    for series in history:
        labels = {name: value for name, value in series.labels.items() if name != "__name__"}
        if (instance := labels.get("instance")) is not None:
            labels["instance"] = instances.get(instance, instance)
        text = ",".join(f'{name}="{_escaped(value)}"' for name, value in sorted(labels.items()))
        name = series.labels["__name__"]
        value_shift = shift_seconds if name.endswith(DATES_SUFFIX) else 0.0
        for recorded_time, value in series.points:
            if recorded_time + shift_seconds <= until:
                yield f"{name}{{{text}}} {value + value_shift!r} {recorded_time + shift_seconds:.3f}\n"
    yield "# EOF\n"


def _escaped(value: str) -> str:
    return value.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
