"""Let a job count its own updates, evaluations and checkpoints, and keep torch's own record of its collectives.

The job runs in the environment of its framework and does not know zmon. torch's flight recorder counts each collective
in C++, below the functions that zmon watches. With gloo the recorder lacks sends and receives. A job that calls them
counts them itself. OUT, in the usage of each job, is the folder of these files.
"""

from __future__ import annotations

import atexit
import json
import os
from pathlib import Path

import torch.distributed as dist
from torch._C._distributed_c10d import _dump_fr_trace_json


class Count:
    """The counts of one rank, which go to a file when the process ends."""

    def __init__(self, out: str) -> None:
        self.out = Path(out)
        self.rank: int | None = None  # for a launcher that sets no RANK: the job sets it
        self.steps = self.evaluations = 0
        self.checkpoints: int | None = 0  # None: the framework does not say what this rank saves
        self.single: dict[str, int] = {}  # number of sends and receives, by op
        self.declared: dict | None = None  # what an example declares: samples, operations, names of gauges
        self._pid = os.getpid()
        atexit.register(self.write)

    def write(self) -> None:
        """Write the counts and the flight record. Another call overwrites the files."""
        if os.getpid() != self._pid:  # a worker of a DataLoader, which inherits the handler
            return
        if self.rank is None:
            self.rank = dist.get_rank() if dist.is_initialized() else int(os.environ["RANK"])
        counts = {name: value for name, value in vars(self).items() if name not in ("out", "_pid")}
        flight_record = _dump_fr_trace_json(includeCollectives=True, onlyActive=False)
        (self.out / f"flight-{self.rank}.json").write_bytes(flight_record)
        (self.out / f"counted-{self.rank}.json").write_text(json.dumps(counts | {"pid": self._pid}))
