"""A rank of a whole run, as `python -m trainer` makes it, that tells the most memory it had and what was predicted.

Started by torchrun: `-m bench.trainer_memory FOLDER SHAPE STEPS`; SHAPE is a bench.dlrm.Shape, or `demo`.
"""

from __future__ import annotations

import json
import os
import re
import sys
from dataclasses import asdict
from pathlib import Path

import torch
import torch.distributed as dist

import zmon
from bench.dlrm import Kept, Shape
from trainer.keys import apply_changes
from trainer.presets import demo
from trainer.run import Run, open_source
from trainer.world import join, world_from


def peak_bytes() -> int:
    """The most that this process had resident since it began (VmHWM, proc_pid_status(5))."""
    found = re.search(r"VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text())
    assert found is not None
    return int(found[1]) * 1024


def main(folder: str, told_shape: str, steps: str) -> None:
    """Write what was found into FOLDER/<rank>.json."""
    torch.set_num_threads(1)
    shape = None if told_shape == "demo" else Shape(**json.loads(told_shape))
    config = apply_changes(shape.config() if shape else demo(), [{"train": {"steps": int(steps)}}])
    world = world_from(os.environ)
    zmon.attach()
    source = Kept(shape) if shape else open_source(config, world)
    join(world)
    run = Run(config, world, source)
    run.train()
    predicted = run.trainer.plan.predicted[world.rank]
    told = {"peak": peak_bytes(), "predicted": predicted.memory_bytes, "parts": asdict(predicted.memory)}
    (Path(folder) / f"{world.rank}.json").write_text(json.dumps(told))
    dist.destroy_process_group()


if __name__ == "__main__":
    main(*sys.argv[1:])
