"""Let a job count its own steps, collectives and activities by hand, without any hooks."""

import json
import os
import time
from pathlib import Path


class Tally:
    """The tally of one rank, which the job writes to a file at its end."""

    def __init__(self, rank: int = 0, world_size: int = 1) -> None:
        self.rank, self.world_size = rank, world_size
        self.steps = 0
        self.ops: dict[str, list] = {}
        self.activities: list[list] = []

    def op(self, name: str, sent: int | None = 0, received: int | None = 0, times: int = 1) -> None:
        """Count collectives. `sent` and `received` are the bytes of all of them.

        None means that the job cannot know the bytes. Then the total of the op stays None.
        """
        count, total_sent, total_received = self.ops.get(name, [0, 0, 0])
        self.ops[name] = [count + times, _sum(total_sent, sent), _sum(total_received, received)]

    def broadcast(self, num_bytes: int, src: int = 0, times: int = 1) -> None:
        """Count broadcasts: rank `src` sends, all others receive."""
        is_source = self.rank == src
        self.op("broadcast", num_bytes if is_source else 0, 0 if is_source else num_bytes, times)

    def activity(self, name: str, begin: float) -> None:
        """Record that the rank had this activity from `begin` until now, by the host's monotonic clock in seconds."""
        self.activities.append([name, begin, time.monotonic()])

    def write(self, out: str) -> None:
        """Write the tally to the directory `out`."""
        tally = vars(self) | {"pid": os.getpid()}
        Path(out, f"counted-{self.rank}.json").write_text(json.dumps(tally))


def _sum(total: int | None, further: int | None) -> int | None:
    return None if total is None or further is None else total + further


def size(*tensors) -> int:
    """Return the bytes of tensors."""
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors)


def ddp_construction(tally: Tally, module) -> None:
    """Count the collectives of DistributedDataParallel's construction.

    The ranks compare the number of parameters, their shapes and strides (verify_params_across_processes in
    torch/csrc/distributed/c10d/reducer.cpp). Then rank 0 broadcasts the states, with one broadcast per type.
    """
    parameters, buffers = list(module.parameters()), list(module.buffers())
    tally.op("all_gather", 8, 8 * tally.world_size)  # number of parameters, an int64
    tally.broadcast(sum(2 * 8 * parameter.dim() for parameter in parameters))
    for dtype in {tensor.dtype for tensor in parameters + buffers}:
        tally.broadcast(size(*(tensor for tensor in parameters + buffers if tensor.dtype == dtype)))


def ddp_rebuild(tally: Tally, module, num_buckets: int = 1) -> None:
    """Count the broadcasts of DistributedDataParallel before the second synchronised forward pass.

    They are int32 indices and the number of buckets, then the lengths of the buckets (sync_bucket_indices in
    reducer.cpp), in the order in which the gradients came, even if there is only one bucket.
    """
    tally.broadcast(4 * (len(list(module.parameters())) + 1))
    tally.broadcast(4 * num_buckets)
