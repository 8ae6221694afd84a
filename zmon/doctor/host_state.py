"""The state of the hardware of one host, for a scheduler that decides whether it may start jobs there. Pure.

The detector `hardware` decides what a fault is. A single report shows only lasting faults: a GPU that is lost, or one
whose memory needs a reset. An event, such as a link that went down, is a finding of the hub.
"""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple

from zmon.detectors.hardware import Hardware
from zmon.format import counted
from zmon.schema.api.agent import AgentReport
from zmon.schema.host import HostWindow

MAX_LINE_LENGTH = 80  # node-problem-detector cuts longer lines


class State(IntEnum):
    """The state of a host, with the exit codes of node-problem-detector's custom plugins."""

    OK = 0
    FAULT = 1
    UNKNOWN = 2


class HostState(NamedTuple):
    """The state of a host, and a line with the reason."""

    state: State
    reason: str


def host_state(report: AgentReport) -> HostState:
    """Return the state of the host of a report. Only the line of a fault begins with `fault: `."""
    window = HostWindow(report.host, 0.0, report.sample, report.sample)  # no counter changes: only lasting faults
    faults = list(Hardware().faults(window))
    if faults:
        others = f" (and {len(faults) - 1} more)" if len(faults) > 1 else ""
        return HostState(State.FAULT, f"fault: {faults[0].device}: {faults[0].says}{others}")
    gpus = report.sample.gpus
    if gpus is not None:
        return HostState(State.OK, f"{counted(len(gpus), 'GPU')} without a fault")
    source = next((source for source in report.sources if source.name == "gpu"), None)
    if source is None:
        return HostState(State.UNKNOWN, "the agent does not read GPUs yet, or runs --without gpu")
    if source.absent:  # a broken driver looks the same as no GPU, so the line has the reason
        return HostState(State.OK, f"no GPU: {source.error}")
    return HostState(State.UNKNOWN, f"the agent cannot read the GPUs: {source.error}")
