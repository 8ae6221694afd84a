"""A rank of a whole run, as with `python -m trainer`, that writes its peak memory and the plan's prediction.

torchrun starts it as `-m bench.trainer_memory FOLDER SHAPE STEPS`; SHAPE is a bench.dlrm.Shape as JSON, or `demo`.
"""

from __future__ import annotations

import json
import os
import re
import sys
from pathlib import Path

import torch
import torch.distributed as dist

import zmon
from bench.dlrm import RepeatingSource, Shape
from trainer.keys import apply_changes
from trainer.scale.presets import demo
from trainer.scale.run import Run, open_source
from trainer.world import join, world_from


def peak_bytes() -> int:
    """Return the peak resident memory of this process (VmHWM, proc_pid_status(5))."""
    match = re.search(r"VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text())
    assert match is not None
    return int(match[1]) * 1024


def main(folder: str, shape_json: str, steps: str) -> None:
    """Train and write the peak and predicted memory to FOLDER/<rank>.json."""
    torch.set_num_threads(1)
    shape = None if shape_json == "demo" else Shape(**json.loads(shape_json))
    config = apply_changes(shape.config() if shape else demo(), [{"train": {"steps": int(steps)}}])
    world = world_from(os.environ)
    zmon.attach()
    source = RepeatingSource(shape) if shape else open_source(config, world)
    join(world)
    run = Run(config, world, source)
    run.train()
    result = {"peak": peak_bytes(), "predicted": run.plan.predicted[world.rank].memory_bytes}
    (Path(folder) / f"{world.rank}.json").write_text(json.dumps(result))
    dist.destroy_process_group()


if __name__ == "__main__":
    main(*sys.argv[1:])
