"""Make a GPU too hot: its driver, a stub, reports that it throttles, and its rank computes more slowly."""

from __future__ import annotations

import time
from contextlib import ExitStack

from zmon.drills.compiled import INSTALL, no_compiler
from zmon.drills.drill import Injection, Scene
from zmon.drills.faults.sabotage import one_rank
from zmon.drills.host import OneHost
from zmon.errors import ZmonError

HW_THERMAL_SLOWDOWN = 0x40  # nvml.h: nvmlClocksEventReasonHwThermalSlowdown
REASONS = "nvmlDeviceGetCurrentClocksEventReasons"
MAPPING_SECONDS = 3.0  # an agent reads its GPUs every second, and must first learn which rank uses which card
SLOWER = 1.5


unavailable = no_compiler  # the driver is compiled


def throttled(scene: Scene) -> Injection:
    """Make the struck rank's card throttle. Card n belongs to rank n."""
    gpus = scene.stage.gpus if isinstance(scene.stage, OneHost) else None
    if gpus is None:
        raise ZmonError("the stage has no GPUs", "the stub of NVML could not be compiled", INSTALL)
    ranks = scene.stage.ranks(scene.job.spec.job_id).values()
    pids = [(str(state.rank), "pids", state.pid) for state in ranks]
    card = str(scene.rank)
    with ExitStack() as undo:
        undo.callback(gpus.reset_answers, (card, REASONS), *((device, question) for device, question, _ in pids))
        gpus.set_answers(*pids)
        time.sleep(MAPPING_SECONDS)
        onset = time.time()
        gpus.set_answers((card, REASONS, HW_THERMAL_SLOWDOWN))
        slowed = one_rank("slow", SLOWER)(scene)
        if slowed.lift is not None:
            undo.callback(slowed.lift)
        return Injection(onset, undo.pop_all().close)  # the card throttles now; the rank is slow from its next step on
