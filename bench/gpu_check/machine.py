"""The machine on which the kit runs: its software, its GPUs, and why it has none."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import msgspec

from bench.gpu_check import nvidia_smi
from bench.gpu_check.records import TorchDevice, TorchFacts

_ROOT = Path(__file__).parents[2]
_LIMIT_SECONDS = 120.0  # the first import of torch on a machine takes long


@dataclass(frozen=True)
class Machine:
    """The versions and devices of a machine, by torch and by nvidia-smi."""

    python: str  # the version
    torch: TorchFacts
    driver: str | None  # the version, by nvidia-smi
    uuids: tuple[str, ...]  # of the GPUs, by nvidia-smi
    smi_error: str  # why nvidia-smi gave no answer; "": it did
    num_processors: int

    @property
    def devices(self) -> tuple[TorchDevice, ...]:
        """The GPUs that torch can use."""
        return self.torch.devices

    @property
    def num_gpus(self) -> int:
        """The number of GPUs that torch can use."""
        return len(self.devices)

    @property
    def no_gpu_reason(self) -> str:
        """The reason why torch can use no GPU; "" if it can."""
        if self.devices:
            return ""
        if self.torch.error:
            return f"no GPU: {self.torch.error}"
        built = f"torch {self.torch.torch} is built without CUDA" if self.torch.cuda is None else "torch sees none"
        return f"no GPU: {built}; {self.smi_error}" if self.smi_error else f"no GPU: {built}"


def this_machine() -> Machine:
    """Read the facts of this machine."""
    try:
        answers = nvidia_smi.query(("uuid", "driver_version"))
        smi_error = ""
    except nvidia_smi.SmiFailed as error:
        answers = []
        smi_error = str(error)
    return Machine(
        python=platform.python_version(),
        torch=torch_facts(),
        driver=answers[0]["driver_version"] if answers else None,
        uuids=tuple(row["uuid"] for row in answers),
        smi_error=smi_error,
        num_processors=len(os.sched_getaffinity(0)),
    )


def torch_facts() -> TorchFacts:
    """Ask torch in a process of its own, because a process that has used a GPU keeps memory on it."""
    try:
        command = (sys.executable, "-m", "bench.gpu_check.jobs.facts")
        done = subprocess.run(
            command,
            cwd=_ROOT,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_LIMIT_SECONDS,
            check=True,
        )
        return msgspec.json.decode(done.stdout.splitlines()[-1], type=TorchFacts)
    except subprocess.CalledProcessError as error:
        return _facts_without_torch(error.stderr)
    except (OSError, subprocess.TimeoutExpired, IndexError, msgspec.DecodeError) as error:
        return _facts_without_torch(str(error))


def _facts_without_torch(output: str) -> TorchFacts:
    lines = output.strip().splitlines() or ["torch gave no answer"]
    return TorchFacts("unknown", None, None, (), error=f"torch cannot be used: {lines[-1]}")
