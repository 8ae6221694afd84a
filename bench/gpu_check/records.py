"""The files that the jobs of the kit write for its checks, one for each rank. Frozen data only.

Times are seconds and amounts are bytes. `None` means unknown.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import msgspec

T = TypeVar("T")

ABSENT, HOST_CLOCK, EVENTS = "absent", "host clock", "device events"  # modes of the probe: no zmon, the source of times
# A round of the load: products of square matrices (50 ms on an H100), then copies to the GPU and back, whose sizes
# differ so that directions cannot be confused.
PRODUCTS, WIDTH, DTYPE = 20, 8192, "bfloat16"
RECEIVED_BYTES, SENT_BYTES = 64 << 20, 32 << 20
HIDDEN_SHARES = (0.0, 0.5, 2.0)  # lengths of the kernels behind which a collective is waited for, of the wait


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
    """The end of a watched training, seen from inside the rank."""

    device_events: bool  # the probe measured times on the device
    last_sequences: dict[str, int] | None = None  # last completed sequence by backend:group, of torch's flight recorder
    num_pending: int = 0  # collectives that the flight recorder has as not done
    flight_error: str = ""


@dataclass(frozen=True)
class TimedKernels:
    """The time of the kernels of each step by phase, by events of the job's own, and the time of submitting them."""

    steps: tuple[dict[str, float], ...]
    host_seconds: float  # until the host had submitted all steps
    device_seconds: float  # until the device had done them
    device_events: bool


@dataclass(frozen=True)
class MarkCosts:
    """The host's seconds per change of phase, block by block, by mode. The n-th blocks of all modes are neighbours."""

    by_mode: dict[str, tuple[float, ...]]
    device_events: bool


@dataclass(frozen=True)
class AllocatorFigures:
    """The bytes of torch.cuda.memory_stats while they did not change, and of the process by nvidia-smi."""

    allocated: int
    reserved: int
    peak: int
    process_bytes: int | None  # None: nvidia-smi does not list the process


@dataclass(frozen=True)
class Overlaps:
    """The steps of a job. Every step hides the same wait behind a kernel of another length."""

    op: str
    expected_exposed: tuple[float, ...]  # of this rank, step by step
    waits: float  # the length of the wait that nothing hides


@dataclass(frozen=True)
class SubmittedSteps:
    """The time in which the host submitted steps while the device was busy, with zmon and without it."""

    busy_seconds: float
    watched_seconds: float
    absent_seconds: float
    dropped: int  # records that the probe dropped meanwhile
    error: str  # of torch's check for calls that synchronize; "": none


@dataclass(frozen=True)
class Capture:
    """The capture of a CUDA graph."""

    what: str
    watched: bool
    error: str  # "": captured and replayed
    largest_difference: float | None  # of a parameter from the same steps without a graph


@dataclass(frozen=True)
class Captures:
    """All captures of a job, in order."""

    captures: tuple[Capture, ...]


def write(folder: str, rank: int, record: object) -> None:
    """Write the record of a rank."""
    (Path(folder) / f"{rank}.json").write_bytes(msgspec.json.encode(record))


def read(folder: Path, rank: int, kind: type[T]) -> T:
    """Return the record of a rank. Raises OSError and msgspec.DecodeError."""
    return msgspec.json.decode((folder / f"{rank}.json").read_bytes(), type=kind)
