"""Recorded agents that answer as if their job ran now. Nothing trains; hub, Prometheus and dashboard are real.

A recording has what the agents of a real job reported, from shortly before a fault until after it. `clocks` moves its
times to now, `host` chooses what the agent of a host answers at a time, `agent` answers over HTTP, and `stack` starts
the hub, Prometheus and dashboard that ask. No finding is recorded: the hub makes it, as it would have then.
"""

from __future__ import annotations

import lzma
from collections.abc import Sequence
from pathlib import Path

import msgspec

from zmon.errors import UsageError
from zmon.schema.api import RankEvidence, Suspicion
from zmon.schema.api.agent import AgentReport

FOLDER = Path(__file__).parent / "recordings"
SUFFIX = ".msgpack.xz"
LOOPBACK = "127.0.0.1"  # where the recorded agents listen, each on a port of its own


class RecordedReport(msgspec.Struct, frozen=True):
    """The report of one agent at one time; `at` is in seconds since the beginning of the recording."""

    at: float
    report: AgentReport | None  # with the steps that ended since the report before; None: the agent did not answer
    suspects: Sequence[Suspicion] = ()


class RecordedEvidence(msgspec.Struct, frozen=True):
    """The evidence about one rank, as its agent gave it `at` seconds after the beginning of the recording."""

    at: float
    evidence: RankEvidence


class HostRecording(msgspec.Struct, frozen=True):
    """All answers of the agent of one host, in the order of time."""

    host: str
    reports: Sequence[RecordedReport]
    evidence: Sequence[RecordedEvidence]


class PastSeries(msgspec.Struct, frozen=True):
    """The values of one series of Prometheus before the fault; its label `instance` is a host or `hub`."""

    labels: dict[str, str]
    points: Sequence[tuple[float, float]]  # unix seconds and value


class Recording(msgspec.Struct, frozen=True):
    """The agents of one job, before and after a fault. At its end, its last part is played again and again."""

    title: str  # one sentence about what happened
    job_id: str
    began: float  # unix seconds
    fault: float  # seconds since its beginning, as `ends` and `repeats_from`
    ends: float
    repeats_from: float  # from here to its end, it is played again; in this part all ranks do equally many steps
    hosts: Sequence[HostRecording]
    history: Sequence[PastSeries] = ()


def names() -> list[str]:
    return sorted(path.name.removesuffix(SUFFIX) for path in FOLDER.glob(f"*{SUFFIX}"))


def load(name: str) -> Recording:
    """Return the recording with this name. Raises UsageError with all names if there is none."""
    if name not in names():
        raise UsageError(f"there is no recording {name!r}", "", f"The recordings are {', '.join(names())}")
    return decode((FOLDER / f"{name}{SUFFIX}").read_bytes())


def decode(data: bytes) -> Recording:
    return msgspec.msgpack.decode(lzma.decompress(data), type=Recording)


def encode(recording: Recording) -> bytes:
    return lzma.compress(msgspec.msgpack.encode(recording), preset=9 | lzma.PRESET_EXTREME)
