"""A job of one rank that removes zmon and installs it again; in each mode it prints what it has of zmon, as JSON.

`test_switch.py` runs it.
"""

import json
import sys
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from bench.switch import ABSENT, OPTIMIZER_HOOKS, WATCHED, Switch, hooks_of, is_ours, names


class Job:
    """A DDP model that trains with zmon from the start."""

    def __init__(self) -> None:
        self.names_before = names()
        self.switch = Switch()
        store = Path(sys.argv[0]).with_name("store")
        dist.init_process_group("gloo", init_method=f"file://{store}", rank=0, world_size=1)
        from zmon import probe

        assert probe.current is not None
        self.timeline = probe.current
        self.model = DistributedDataParallel(torch.nn.Linear(2, 1))
        self.optimizer = torch.optim.SGD(self.model.parameters(), 0.1)

    def train(self, num_steps: int) -> None:
        """Train for this number of steps."""
        for _ in range(num_steps):
            self.optimizer.zero_grad()
            self.model(torch.ones(4, 2)).sum().backward()
            self.optimizer.step()

    def print_state(self) -> None:
        """Print the names in torch that zmon has changed, the number of its hooks, and the step in the box."""
        now = names()
        changed = [
            f"{owner.__name__}.{name}"
            for (owner, name), before in self.names_before.items()
            if now.get((owner, name)) is not before and callable(before)
            and owner is not sys  # torch.distributed sets an excepthook of its own
        ]  # fmt: skip
        hooks: list[Any] = [hook for hooks in (*hooks_of(self.model), *OPTIMIZER_HOOKS) for hook in hooks.values()]
        print(json.dumps({"changed": changed, "num_hooks": sum(map(is_ours, hooks)), "step": self.timeline.step}))


job = Job()
job.train(10)
job.switch.settle(job.model)
job.print_state()
for mode in (ABSENT, WATCHED):
    job.switch.to(mode)
    job.train(1)
    job.print_state()
dist.destroy_process_group()
