"""Attaches a rank of the kit's jobs to zmon, and joins the process group of its setting."""

from __future__ import annotations

import os

import torch.distributed as dist

import zmon
from bench.device import Cpu, Device, Gpu
from bench.gpu_check.settings import BY_KEY


def join(key: str) -> Device:
    """Attach zmon, choose the device of this rank, and join the process group of the setting, if it has one.

    Ranks on gloo share the first GPU, if there is one.
    """
    setting = BY_KEY[key]
    if not zmon.attach():
        raise SystemExit("zmon did not attach")
    device: Device = Cpu()
    if setting.gpus:
        device = Gpu(local_rank() if setting.backend == "nccl" else 0)
    if setting.backend == "nccl":
        dist.init_process_group("nccl", device_id=device.place)
    elif setting.backend:
        dist.init_process_group(setting.backend)
    return device


def rank() -> int:
    """Return the rank of this process, as torchrun set it."""
    return int(os.environ["RANK"])


def local_rank() -> int:
    """Return the rank of this process on its host."""
    return int(os.environ["LOCAL_RANK"])
