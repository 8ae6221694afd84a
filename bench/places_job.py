"""A rank that trains one job with a C edge that adds up its time by function.

torchrun starts it as `-m bench.places_job OUT KIND SECONDS STEP_SECONDS NATIVE`. It writes OUT/<rank>.json: the seconds
of a step, the microseconds of the probe in it, and by function microseconds and number of parts in a step.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import sys
import time
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

from bench.device import Cpu
from bench.job import filler, warmed_up

_NAME = "zmon.probe.edge.native"


def load(native: str) -> Any:
    """Load this build of the C edge in place of the installed one; zmon must not be imported yet."""
    spec = spec_from_file_location(_NAME, native)
    assert spec is not None
    assert spec.loader is not None
    sys.modules[_NAME] = module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def main(out: str, kind: str, seconds: str, step_seconds: str, native: str) -> None:
    """Run watched steps and write the result."""
    edge = load(native)
    job = importlib.import_module(f"bench.jobs.{kind}")
    import zmon
    from zmon import probe

    if not zmon.attach() or probe.current is None:
        raise SystemExit("zmon did not attach")
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    device = Cpu()
    training = job.make(filler("computes", device), device.place)
    pause, duration = warmed_up(training, float(step_seconds), device)
    gc.collect()
    gc.freeze()
    steps = max(10, int(float(seconds) / duration))
    edge.take_places()
    reported_before = probe.current.ledger.overhead_ns
    begin = time.perf_counter()
    for _ in range(steps):
        training.step(pause)
    elapsed = time.perf_counter() - begin
    places = edge.take_places()
    result = {
        "step": elapsed / steps,
        "reported": (probe.current.ledger.overhead_ns - reported_before) / steps / 1e3,
        "places": {
            name: {"microseconds": ns / steps / 1e3, "parts": num_parts / steps}
            for name, (ns, num_parts) in places.items()
        },
    }
    (Path(out) / f"{os.environ['RANK']}.json").write_text(json.dumps(result))
    dist.destroy_process_group()


if __name__ == "__main__":
    main(*sys.argv[1:])
