"""Attaches a rank of the kit's jobs to zmon, joins the process group of its setting, and writes the rank's record."""

from __future__ import annotations

import os
from pathlib import Path

import torch.distributed as dist

import zmon
from bench.device import Cpu, Device, Gpu
from bench.gpu_check.records import write
from bench.gpu_check.settings import BY_KEY


def join(key: str) -> Device:
    """Attach zmon and join the process group of the setting, if it has one. Return the device of this rank.

    Ranks on gloo share the first GPU, if the setting has one.
    """
    setting = BY_KEY[key]
    if not zmon.attach():
        raise SystemExit("zmon did not attach")
    device: Device = Cpu()
    if setting.num_gpus:
        device = Gpu(int(os.environ["LOCAL_RANK"]) if setting.backend == "nccl" else 0)
    if setting.backend == "nccl":
        dist.init_process_group("nccl", device_id=device.place)
    elif setting.backend:
        dist.init_process_group(setting.backend)
    return device


def write_record(folder: str, record: object) -> None:
    """Write the record of this rank into the folder of the job."""
    write(Path(folder), int(os.environ["RANK"]), record)
