"""Build jobs whose ranks take unequally long, with the steps and step windows that a hub would have of them."""

import random
from dataclasses import replace

from tests.build import add_records, rank_state, snapshot, step_record
from zmon.detectors.slow.imbalance import Imbalance
from zmon.job.baseline import BaselineLearner
from zmon.job.history import History

STEP = 0.250  # seconds of an even step: 40 ms of data, 160 ms of computing, 50 ms of collectives


def even(draw, size=4, spread=0.03):
    """Return the phases of one step by rank: ranks that vary little."""
    return [
        {"data": 0.040 * draw.lognormvariate(0, spread), "forward": 0.160 * draw.lognormvariate(0, spread)}
        for _ in range(size)
    ]


def late_in(phase, seconds, draw, size=4, ranks=None):
    """Return an even step in which one rank is late in a phase; it is drawn from `ranks`, or from all."""
    row, late = even(draw, size), draw.choice(ranks or range(size))
    return [{**phases, phase: phases.get(phase, 0.0) + seconds * (rank == late)} for rank, phases in enumerate(row)]


def job(*parts, size=4, seed=1, scale=1.0, op="all_reduce", every=1, samples=32, lookups=None, **changes):
    """Return the snapshot of a job after these parts: pairs of a duration in seconds and a function of one step.

    The function gets a random generator. `scale` makes all times longer or shorter. The hub gets every `every`th step.
    """
    draw, history, learning, number = random.Random(seed), History(size), BaselineLearner(), 0
    for seconds, step in parts:
        lasted, rows = 0.0, []
        while lasted < seconds:
            number += 1
            rows.append([{name: s * scale for name, s in phases.items()} for phases in step(draw)])
            longest = max(sum(phases.values()) for phases in rows[-1])
            lasted += longest + 0.050 * scale
            if number % every:
                continue
            records = {}
            for rank in range(size):
                one, mean = _measures(rows[-1:], rank, op, scale), _measures(rows[-every:], rank, op, scale)
                record = step_record(number, *one, samples=samples)
                known = lookups[number % len(lookups)][rank] if lookups else None
                of_mean = step_record(number, *mean, samples=samples).measures if every > 1 else None
                records[rank] = (replace(record, measures=replace(record.measures, lookups=known), mean=of_mean),)
            learning.add(add_records(history, records))
    ranks = [rank_state(rank, world_size=size, host=f"node-{rank}") for rank in range(size)]
    windows = tuple(learning.step_windows)
    return replace(snapshot(*ranks), steps=tuple(history.steps), step_windows=windows, **changes)


def _measures(rows, rank, op, scale):
    """Return the mean phases and ops of one rank in these steps."""
    number = len(rows)
    phases = {name: sum(row[rank].get(name, 0.0) for row in rows) / number for name in rows[0][rank]}
    longest = [max(sum(each.values()) for each in row) for row in rows]
    exposed = sum(longest) / number + 0.050 * scale - sum(phases.values())
    return phases, {op: exposed} if op else {}


def findings(snapshot_):
    return Imbalance().detect(snapshot_)


def detect(*parts, **others):
    """Return the one finding, or None."""
    result = findings(job(*parts, **others))
    assert len(result) <= 1, result
    return next(iter(result), None)
