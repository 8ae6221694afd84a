"""A GPU gets too hot: its driver, a stub, says that it throttles, and its rank computes more slowly."""

from __future__ import annotations

import time
from contextlib import ExitStack

from zmon.drills.compiled import INSTALL, no_compiler
from zmon.drills.drill import Scene, Strike
from zmon.drills.faults.sabotage import one_rank
from zmon.drills.host import OneHost
from zmon.errors import ZmonError

HW_THERMAL_SLOWDOWN = 0x40  # nvml.h: nvmlClocksEventReasonHwThermalSlowdown
REASONS = "nvmlDeviceGetCurrentClocksEventReasons"
LOOKED_SECONDS = 3.0  # an agent reads its GPUs every second, and has to know whose they are
SLOWER = 1.5


unavailable = no_compiler  # the driver is compiled


def throttled(scene: Scene) -> Strike:
    """Card n is rank n's; the one of the struck rank throttles."""
    gpus = scene.stage.gpus if isinstance(scene.stage, OneHost) else None
    if gpus is None:
        raise ZmonError("no GPU to play with", "the stub of NVML could not be built", INSTALL)
    ranks = scene.stage.ranks(scene.job.spec.job_id).values()
    told = [(str(state.rank), "pids", state.pid) for state in ranks]
    card = str(scene.rank)
    with ExitStack() as undo:
        undo.callback(gpus.untell, (card, REASONS), *((who, what) for who, what, _ in told))
        gpus.tell(*told)
        time.sleep(LOOKED_SECONDS)
        onset = time.time()
        gpus.tell((card, REASONS, HW_THERMAL_SLOWDOWN))
        slowed = one_rank("slow", SLOWER)(scene)
        if slowed.lift is not None:
            undo.callback(slowed.lift)
        return Strike(onset, undo.pop_all().close)  # the rank is slow from its next step on; the card says so now
