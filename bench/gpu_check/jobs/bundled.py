"""Runs the command line of the bundled trainer, then writes whether the probe measured with device events."""

from __future__ import annotations

import sys

import torch

from bench.gpu_check.jobs.joining import write_record
from bench.gpu_check.records import TrainedRank
from trainer.__main__ import main as train
from zmon import probe


def main(folder: str, _: str, steps: str) -> None:
    """Train this many steps; the trainer itself attaches zmon and chooses device and backend."""
    sys.argv = ["trainer", "--preset", "demo", "--steps", steps]
    train()
    if torch.cuda.is_initialized():
        # A rank that ends also writes the steps that the device has not done yet, but without their times.
        torch.cuda.synchronize()
    has_events = probe.current is not None and probe.current.device is not None
    write_record(folder, TrainedRank(has_events))
