"""Make realistic runs for tests: correlated steps that drift, with pauses, repeatable by their seed."""

from math import exp, sin, sqrt
from random import Random

from tests.steps import Measures, OpTotals, StepRecord, set_steps
from zmon.offline.analyze.rows import StepTable

SELF_SECONDS, EXCHANGE_SECONDS = 0.030, 0.009  # of a step without noise
STEP_SECONDS = 0.040  # about the median: each step waits for the slower rank
PAUSE_EVERY, PAUSE_SECONDS = 250, 0.6


def log(seed, slower=0.0, steps=2000, ranks=2, spread=0.03, correlation=0.8, drift=0.01, samples=64, part="backward"):
    """Return the log of a job. `part`, an op or a phase, takes longer by the ratio `slower` of a step.

    The self time of each rank follows a first-order autoregression. All ranks share a slow wave with the amplitude
    `drift` and a phase that differs between runs. Every 250th step waits for a checkpoint.
    """
    records = {(0, rank): {} for rank in range(ranks)}
    chance = Random(seed)
    table = StepTable(f"run-{seed}", has_exposed_time=True)
    phase = chance.uniform(0, 6.28)  # of the slow wave, in radians
    deviations = [0.0] * ranks  # of the logarithm of each rank's self time
    extra_seconds = slower * STEP_SECONDS
    for step in range(1, steps + 1):
        wave = drift * sin(phase + 25 * step / steps)
        noise = sqrt(1 - correlation**2) * spread
        deviations = [correlation * deviation + chance.gauss(0, noise) for deviation in deviations]
        self_seconds = [SELF_SECONDS * exp(deviation + wave) for deviation in deviations]
        exchange = EXCHANGE_SECONDS * exp(chance.gauss(0, 0.05)) + (PAUSE_SECONDS if step % PAUSE_EVERY == 0 else 0)
        for rank, seconds in enumerate(self_seconds):
            phases = {"data": 0.1 * seconds, "forward": 0.3 * seconds, "backward": 0.6 * seconds}
            exposed_seconds = max(self_seconds) - seconds + exchange
            if part in phases:
                phases[part] += extra_seconds
            else:
                exposed_seconds += extra_seconds
            measures = Measures(phases, {"all_to_all": OpTotals(1, exposed_seconds)}, samples=samples)
            duration = sum(phases.values()) + exposed_seconds
            records[0, rank][step] = StepRecord(step, 1.8e9 + step, duration, measures)
    set_steps(table, records)
    table.hosts.update({(0, rank): f"node-{rank}" for rank in range(ranks)})
    return table
