"""The settings of a check: how many ranks it has, on which devices, and with which backend they communicate.

NCCL refuses two ranks on one GPU. So on a machine with one GPU, NCCL runs with one rank, which uses NCCL's kernels, its
stream and its events, but never waits for a peer. Two ranks that share the GPU communicate with gloo on CUDA tensors:
they wait for each other, but the collective runs on the host. With NCCL, only ranks on two GPUs wait for each other.
"""

from __future__ import annotations

from dataclasses import dataclass

from bench.gpu_check.machine import Machine
from zmon.format import counted


@dataclass(frozen=True)
class Setting:
    """One way to run the job of a check. MACHINE is for checks without a job."""

    key: str  # on the command line of a job
    name: str  # in the report
    backend: str  # "": no process group
    num_ranks: int
    num_gpus: int  # the number that the ranks need

    def missing(self, machine: Machine) -> str | None:
        """Return the reason why this machine cannot have this setting, or None."""
        if machine.num_gpus >= self.num_gpus:
            return None
        available = counted(machine.num_gpus, "GPU")
        return machine.no_gpu_reason or f"this machine has {available}, and this needs {self.num_gpus}"

    def applies(self, machine: Machine) -> bool:
        """Return False for ON_CPU on a machine with a GPU, where settings with GPUs say more."""
        return self is not ON_CPU or not machine.num_gpus


MACHINE = Setting("machine", "", "", num_ranks=0, num_gpus=0)
ALONE = Setting("alone", "1 process on the GPU, no process group", "", num_ranks=1, num_gpus=1)
ONE_RANK = Setting("nccl-1", "1 rank, NCCL", "nccl", num_ranks=1, num_gpus=1)
SHARED = Setting("gloo-shared", "2 ranks on one GPU, gloo on CUDA tensors", "gloo", num_ranks=2, num_gpus=1)
GPU_EACH = Setting("nccl-2", "2 ranks, NCCL, a GPU each", "nccl", num_ranks=2, num_gpus=2)
ON_CPU = Setting("gloo-cpu", "2 ranks, gloo on the CPU", "gloo", num_ranks=2, num_gpus=0)

BY_KEY = {setting.key: setting for setting in (MACHINE, ALONE, ONE_RANK, SHARED, GPU_EACH, ON_CPU)}
