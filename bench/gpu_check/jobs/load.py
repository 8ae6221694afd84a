"""Loads the first GPU until the process is ended: matrix products, and copies from and to the host.

It is one process without torchrun. After each round, it writes the work so far as the record of rank 0.
"""

from __future__ import annotations

import itertools
from pathlib import Path

import torch

from bench.gpu_check.records import LoadTotals, write

_NUM_PRODUCTS = 20  # of a round: 50 ms on an H100
_WIDTH = 8192  # rows and columns of the square matrices
_DTYPE = "bfloat16"
# Bytes that the GPU receives and sends in a round. They differ, so that directions cannot be confused.
_RECEIVED_BYTES, _SENT_BYTES = 64 << 20, 32 << 20


def main(folder: str) -> None:
    """Load the GPU."""
    device = torch.device("cuda", 0)
    matrix = torch.randn(_WIDTH, _WIDTH, device=device, dtype=getattr(torch, _DTYPE))
    host_source = torch.ones(_RECEIVED_BYTES, dtype=torch.uint8, pin_memory=True)
    host_target = torch.empty(_SENT_BYTES, dtype=torch.uint8, pin_memory=True)
    received = torch.empty(_RECEIVED_BYTES, dtype=torch.uint8, device=device)
    for rounds in itertools.count(1):
        for _ in range(_NUM_PRODUCTS):
            matrix @ matrix
        received.copy_(host_source, non_blocking=True)
        host_target.copy_(received[:_SENT_BYTES], non_blocking=True)
        torch.cuda.synchronize(device)
        write(Path(folder), 0, totals(rounds))


def totals(rounds: int) -> LoadTotals:
    """Return the work of this many rounds."""
    operations = 2.0 * _WIDTH**3 * _NUM_PRODUCTS  # a product multiplies and adds
    return LoadTotals(rounds * _RECEIVED_BYTES, rounds * _SENT_BYTES, rounds * operations, _DTYPE)
