"""Runs whose steps are like life: alike for a while, drifting, with pauses; repeatable by their seed."""

from math import exp, sin, sqrt
from random import Random

from zmon.offline.analyze.rows import StepTable
from zmon.schema.step import Measures, OpTotals, StepRecord

PAUSE_EVERY, PAUSE_SECONDS = 250, 0.6


def log(seed, slower=0.0, steps=2000, ranks=2, spread=0.03, like_the_last=0.8, drift=0.01, samples=64, part="backward"):
    """A job of 40 ms steps; `slower` of a step more is spent in `part`, an op or a phase.

    Each rank's own time follows a first-order autoregression, all share a slow wave of an amplitude of `drift` whose
    phase is the run's own, and every 250th step waits for a checkpoint.
    """
    chance, log = Random(seed), StepTable(f"run-{seed}", blames=True)
    phase = chance.uniform(0, 6.28)
    wander = [0.0] * ranks
    extra = {part: slower * 0.040}
    for step in range(1, steps + 1):
        wave = drift * sin(phase + 25 * step / steps)
        fresh = sqrt(1 - like_the_last**2) * spread
        wander = [like_the_last * at + chance.gauss(0, fresh) for at in wander]
        own = [0.030 * exp(at + wave) for at in wander]
        exchange = 0.009 * exp(chance.gauss(0, 0.05)) + (PAUSE_SECONDS if step % PAUSE_EVERY == 0 else 0)
        for rank, seconds in enumerate(own):
            phases = {"data": 0.1 * seconds, "forward": 0.3 * seconds, "backward": 0.6 * seconds}
            waits = max(own) - seconds + exchange
            if part in phases:
                phases[part] += extra[part]
            else:
                waits += extra[part]
            measures = Measures(phases, {"all_to_all": OpTotals(1, waits)}, samples=samples)
            duration = sum(phases.values()) + waits
            log.records[0, rank][step] = StepRecord(step, 1.8e9 + step, duration, measures)
    log.hosts.update({(0, rank): f"node-{rank}" for rank in range(ranks)})
    return log
