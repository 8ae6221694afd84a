"""Make a GPU throttle: a stub of the driver reports it, and the rank of the GPU computes more slowly."""

from __future__ import annotations

import time
from contextlib import ExitStack

from lab.drills.drill import Injection, Scene
from lab.faults.sabotage import one_rank
from lab.libraries import INSTALL, no_compiler
from lab.stage.host import OneHost
from zmon.errors import ZmonError

HW_THERMAL_SLOWDOWN = 0x40  # nvml.h: nvmlClocksEventReasonHwThermalSlowdown
REASONS = "nvmlDeviceGetCurrentClocksEventReasons"
MAPPING_SECONDS = 3.0  # the agent reads its GPUs every second and must first learn which rank uses which GPU
SLOWER = 1.5  # factor on the computation of the rank

unavailable = no_compiler  # the stub is compiled


def throttled(scene: Scene) -> Injection:
    """Make the GPU of the struck rank throttle. GPU n belongs to rank n."""
    gpus = scene.stage.gpus if isinstance(scene.stage, OneHost) else None
    if gpus is None:
        raise ZmonError("the stage has no GPUs", "the stub of NVML could not be compiled", INSTALL)
    ranks = scene.stage.ranks(scene.job.spec.job_id).values()
    pids = {str(state.rank): state.pid for state in ranks}  # by GPU
    gpu = str(scene.rank)
    with ExitStack() as undo:
        undo.callback(gpus.reset_answers, (gpu, REASONS), *((number, "pids") for number in pids))
        gpus.set_answers(*((number, "pids", pid) for number, pid in pids.items()))
        time.sleep(MAPPING_SECONDS)
        onset = time.time()
        gpus.set_answers((gpu, REASONS, HW_THERMAL_SLOWDOWN))
        slowness = one_rank("slow", SLOWER)(scene)
        if slowness.lift is not None:
            undo.callback(slowness.lift)
        # The fault begins when the GPU throttles. The rank is slow from its next step.
        return Injection(onset, undo.pop_all().close)
