"""A rank of the bundled trainer that writes when it began, imported torch, was ready, and finished each step.

torchrun starts it as `-m bench.recovery.job FOLDER STEP_SECONDS OPTION…`, with options of the trainer. Each step waits
about STEP_SECONDS longer than the trainer's own, so that many ranks fit on few cores. A rank appends lines
`event unix-seconds number` to FOLDER/events-<rank>. The events and their numbers are:

    began       the pid
    imported    torch is imported; torch's number of threads
    ready       for the first step; the last step of the checkpoint
    step        a step has ended; its number
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from zmon.process import process_stat


def main(folder: str, step_seconds: str, *options: str) -> None:
    """Train with the trainer's own command line."""
    with (Path(folder) / f"events-{os.environ['RANK']}").open("a", buffering=1) as file:

        def write(event: str, number: int, seconds: float | None = None) -> None:
            file.write(f"{event} {seconds or time.time():.6f} {number}\n")

        write("began", os.getpid(), _start())
        import torch

        write("imported", torch.get_num_threads())
        _watch_steps(write, float(step_seconds))
        from trainer.__main__ import main as train

        sys.argv = ["trainer", *options]
        train()


def _start() -> float:
    """Return the latest time at which this process may have started, in unix seconds.

    The kernel has it in ticks after boot, and /proc/stat has the time of the boot in whole seconds only.
    """
    stat = process_stat(os.getpid())
    assert stat is not None  # a process always sees itself
    seconds = (stat.start_ticks + 1) / os.sysconf("SC_CLK_TCK")  # the kernel rounds the ticks down
    return time.time() - (time.clock_gettime(time.CLOCK_BOOTTIME) - seconds)


def _watch_steps(write: Callable[[str, int], None], wait_seconds: float) -> None:
    """Let each step of the trainer wait in its forward pass; write when the first step begins and when a step ends."""
    from trainer.train import Trainer

    build, step = Trainer.__init__, Trainer.step
    is_ready = False

    def build_with_wait(self: Trainer, *args: Any) -> None:
        build(self, *args)
        top = self.model.top

        def top_after_wait(*tensors: Any) -> Any:
            time.sleep(wait_seconds)
            return top(*tensors)

        vars(self.model)["top"] = top_after_wait  # mypy allows no assignment to a method

    def step_with_events(self: Trainer, batch: Any, *args: Any) -> Any:
        nonlocal is_ready
        number = batch.step_batch.step
        if not is_ready:
            write("ready", number)
            is_ready = True
        result = step(self, batch, *args)
        write("step", number + 1)
        return result

    # Ruff allows no `setattr` with a constant name.
    type.__setattr__(Trainer, "__init__", build_with_wait)
    type.__setattr__(Trainer, "step", step_with_events)


if __name__ == "__main__":
    main(*sys.argv[1:])
