"""Checks the versions that zmon needs, and that torch and nvidia-smi see the same GPUs."""

from __future__ import annotations

from collections.abc import Iterator

from bench.gpu_check.kit import Kit
from bench.gpu_check.machine import Machine
from bench.gpu_check.result import NOT_CHECKED, Result, outcome_of
from bench.gpu_check.settings import Setting
from zmon.probe.autoload.sitecustomize import OLDEST_TORCH

_OLDEST_PYTHON = (3, 11)


def run(kit: Kit, _: Setting) -> Iterator[Result]:
    """Compare the facts of the machine."""
    yield from compare(kit.machine)


def compare(machine: Machine) -> Iterator[Result]:
    """Yield the results; without a GPU, the reason."""
    for name, version, oldest in (
        ("Python", machine.python, _OLDEST_PYTHON),
        ("torch", machine.torch.torch, OLDEST_TORCH),
    ):
        needed = f"{'.'.join(map(str, oldest))} or newer"
        yield Result(f"version of {name}", outcome_of(_numbers(version) >= oldest), version, compared_with=needed)
    devices = {device.uuid for device in machine.devices}
    subject = "UUIDs of the GPUs"
    if machine.no_gpu_reason:
        yield Result(subject, NOT_CHECKED, note=machine.no_gpu_reason)
    elif machine.smi_error:
        yield Result(subject, NOT_CHECKED, note=machine.smi_error)
    else:  # a job may see fewer: CUDA_VISIBLE_DEVICES
        known = devices <= set(machine.uuids)
        compared_with = f"nvidia-smi: {', '.join(machine.uuids)}"
        yield Result(subject, outcome_of(known), ", ".join(sorted(devices)), compared_with=compared_with)


def _numbers(version: str) -> tuple[int, ...]:
    """Return major and minor version; () if the text has none."""
    numbers = version.split(".")[:2]
    return tuple(map(int, numbers)) if all(number.isdecimal() for number in numbers) else ()
