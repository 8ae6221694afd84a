"""The records that a job of the GPU kit writes for its check: one JSON file for each rank.

Times are seconds and amounts are bytes. `None` means unknown.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TypeVar

import msgspec

T = TypeVar("T")


@dataclass(frozen=True)
class TorchDevice:
    """A GPU as torch sees it."""

    name: str
    uuid: str  # with the prefix of NVML, GPU-
    capability: str  # compute capability, such as 9.0


@dataclass(frozen=True)
class TorchFacts:
    """The versions of torch and of what it brings, and its devices."""

    torch: str
    cuda: str | None  # None: built without CUDA
    nccl: str | None
    devices: tuple[TorchDevice, ...]
    error: str = ""  # why CUDA cannot be used, in torch's words


@dataclass(frozen=True)
class TrainedRank:
    """The end of a watched training, as the rank itself knows it."""

    has_device_events: bool  # the probe measured times on the device
    # By "backend:group", the last sequence that torch's flight recorder has as completed. None: it did not answer.
    last_sequences: dict[str, int] | None = None
    num_pending: int = 0  # collectives that the flight recorder has as not completed
    flight_error: str = ""  # why the flight recorder did not answer


@dataclass(frozen=True)
class TimedKernels:
    """The device time of each step by phase, by CUDA events of the job, and the time of submitting all steps."""

    steps: tuple[dict[str, float], ...]
    host_seconds: float  # until the host had submitted all steps
    device_seconds: float  # until the device had done them
    has_device_events: bool


class ProbeMode(StrEnum):
    """The state of the probe while the cost of a mark is measured."""

    ABSENT = "absent"  # the rank has no probe
    HOST_CLOCK = "host clock"  # the probe takes times from the host's clock
    EVENTS = "device events"  # the probe takes times from CUDA events


@dataclass(frozen=True)
class MarkCosts:
    """The host time of a change of phase, for each block of changes. The modes take turns, block by block."""

    by_mode: dict[ProbeMode, tuple[float, ...]]
    has_device_events: bool


@dataclass(frozen=True)
class AllocatorFigures:
    """The bytes of torch.cuda.memory_stats while they did not change, and of the process by nvidia-smi."""

    allocated: int
    reserved: int
    peak: int
    process_bytes: int | None  # None: nvidia-smi does not list the process


@dataclass(frozen=True)
class HiddenStep:
    """A step in which a kernel runs while the rank waits for a collective."""

    kernel_ratio: float  # the kernel's duration ÷ the duration of the wait
    expected_exposed_seconds: float  # of the wait: what remains after the kernel


@dataclass(frozen=True)
class OverlapSteps:
    """The steps of a job in which kernels of different durations hide the wait for the same collective."""

    op: str
    wait_seconds: float  # of this rank, without a kernel
    steps: tuple[HiddenStep, ...]


@dataclass(frozen=True)
class LoadTotals:
    """The work that the load has done on the GPU so far."""

    received_bytes: int  # by copies from the host
    sent_bytes: int  # by copies to the host
    operations: float  # floating-point operations of the matrix products
    dtype: str  # of the matrices


@dataclass(frozen=True)
class SubmittedSteps:
    """The time in which the host submitted steps while a long kernel ran, with zmon and without it."""

    kernel_seconds: float
    watched_seconds: float
    absent_seconds: float  # without zmon
    num_dropped: int  # records that the probe dropped while torch checked for calls that synchronize
    error: str  # of this check; "": no call synchronizes


@dataclass(frozen=True)
class Capture:
    """The capture of a CUDA graph."""

    what: str
    is_watched: bool
    error: str  # "": captured and replayed
    largest_difference: float | None  # of a parameter from its value after the same steps without a graph


@dataclass(frozen=True)
class Captures:
    """All captures of a job, in order."""

    captures: tuple[Capture, ...]


def write(folder: Path, rank: int, record: object) -> None:
    """Write the record of a rank. The file appears whole, so a reader may poll it."""
    file = folder / f"{rank}.json"
    new = file.with_suffix(".new")
    new.write_bytes(msgspec.json.encode(record))
    new.replace(file)


def read(folder: Path, rank: int, kind: type[T]) -> T:
    """Return the record of a rank. Raises OSError and msgspec.DecodeError."""
    return msgspec.json.decode((folder / f"{rank}.json").read_bytes(), type=kind)
