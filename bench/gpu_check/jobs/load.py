"""Loads the first GPU until it is ended: matrix products, and copies from and to the host whose bytes it counts.

Started as `-m bench.gpu_check.jobs.load FILE`. FILE has the bytes received and sent by the GPU so far.
"""

from __future__ import annotations

import sys
from pathlib import Path

import torch

from bench.gpu_check.records import DTYPE, PRODUCTS, RECEIVED_BYTES, SENT_BYTES, WIDTH


def main(path: str) -> None:
    """Load the GPU."""
    device = torch.device("cuda", 0)
    matrix = torch.randn(WIDTH, WIDTH, device=device, dtype=getattr(torch, DTYPE))
    host_source = torch.ones(RECEIVED_BYTES, dtype=torch.uint8, pin_memory=True)
    host_target = torch.empty(SENT_BYTES, dtype=torch.uint8, pin_memory=True)
    received = torch.empty(RECEIVED_BYTES, dtype=torch.uint8, device=device)
    rounds = 0
    file = Path(path)
    new = Path(f"{path}.new")
    while True:
        for _ in range(PRODUCTS):
            matrix @ matrix
        received.copy_(host_source, non_blocking=True)
        host_target.copy_(received[:SENT_BYTES], non_blocking=True)
        torch.cuda.synchronize(device)
        rounds += 1
        new.write_text(f"{rounds * RECEIVED_BYTES} {rounds * SENT_BYTES}")
        new.replace(file)


if __name__ == "__main__":
    main(*sys.argv[1:])
