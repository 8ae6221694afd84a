"""What a job says of itself: its steps, collectives and activities, counted by hand; nothing is hooked."""

import json
import os
import time
from pathlib import Path


class Tally:
    """One rank's own count, written down for the tests once the job is through."""

    def __init__(self, rank: int = 0, world_size: int = 1) -> None:
        self.rank, self.world_size = rank, world_size
        self.steps = 0
        self.ops: dict[str, list] = {}
        self.activities: list[list] = []

    def op(self, name: str, sent: int | None = 0, received: int | None = 0, times: int = 1) -> None:
        """So many more of a collective, bytes in all; None once and for all where a job cannot know them."""
        before = self.ops.get(name, [0, 0, 0])
        sizes = (None if None in pair else sum(pair) for pair in ((before[1], sent), (before[2], received)))
        self.ops[name] = [before[0] + times, *sizes]

    def broadcast(self, num_bytes: int, src: int = 0, times: int = 1) -> None:
        """Whoever has it sends, all others receive."""
        mine = self.rank == src
        self.op("broadcast", num_bytes if mine else 0, 0 if mine else num_bytes, times)

    def activity(self, name: str, begin: float) -> None:
        """From `begin` until now the rank was surely there for this; seconds of the host's monotonic clock."""
        self.activities.append([name, begin, time.monotonic()])

    def write(self, out: str) -> None:
        """The job is through."""
        said = vars(self) | {"pid": os.getpid()}
        Path(out, f"counted-{self.rank}.json").write_text(json.dumps(said))


def size(*tensors) -> int:
    """Bytes of tensors."""
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors)


def ddp_construction(tally: Tally, module) -> None:
    """What DistributedDataParallel says at construction: how many parameters, their shapes and strides, their values.

    torch/csrc/distributed/c10d/reducer.cpp, verify_params_across_processes; then the states, one broadcast per type.
    """
    parameters, buffers = list(module.parameters()), list(module.buffers())
    tally.op("all_gather", 8, 8 * tally.world_size)  # number of parameters, an int64
    tally.broadcast(sum(2 * 8 * parameter.dim() for parameter in parameters))
    for dtype in {tensor.dtype for tensor in parameters + buffers}:
        tally.broadcast(size(*(tensor for tensor in parameters + buffers if tensor.dtype == dtype)))


def ddp_rebuild(tally: Tally, module, num_buckets: int = 1) -> None:
    """What it says before the second synchronised forward: int32 indices and number of buckets, then their lengths.

    reducer.cpp, sync_bucket_indices; in the order in which the gradients came, even if there is but one bucket.
    """
    tally.broadcast(4 * (len(list(module.parameters())) + 1))
    tally.broadcast(4 * num_buckets)
