"""Build jobs whose ranks take unequally long, with the steps and step windows that a hub would have of them."""

import random
from dataclasses import replace
from functools import cache, lru_cache

from tests.build import add_records, job_steps, rank_state, snapshot, step_record
from tests.steps import changed
from zmon.job.baseline import BaselineLearner
from zmon.job.history import History

EVEN_BYTES = 60_000
BATCH = 64  # steps that the hub receives at once


def even(draw, size=4, spread=0.03):
    """Return the phases of one step of 250 ms by rank: ranks that vary little, and 50 ms of collectives."""
    return [
        {"data": 0.040 * draw.lognormvariate(0, spread), "forward": 0.160 * draw.lognormvariate(0, spread)}
        for _ in range(size)
    ]


def late_in(phase, seconds, draw, size=4, ranks=None):
    """Return an even step in which one rank is late in a phase; it is drawn from `ranks`, or from all."""
    row, late = even(draw, size), draw.choice(ranks or range(size))
    return [{**phases, phase: phases.get(phase, 0.0) + seconds * (rank == late)} for rank, phases in enumerate(row)]


def slow_loader(draw):
    """Return a step in which a random rank waits longer for its data."""
    return late_in("data", 0.150, draw)


def slow_computing(draw):
    """Return a step in which a random rank computes longer."""
    return late_in("forward", 0.150, draw)


def job(*parts, ranks=None, **of_steps):
    """Return the snapshot of a job after these parts (see `_after`), perhaps with other ranks."""
    whole = _after(*parts, **of_steps)
    return replace(whole, ranks=ranks) if ranks else whole


@lru_cache(64)  # many rows have the same job
def _after(*parts, size=4, seed=1, scale=1.0, op="all_reduce", every=1, samples=32, lookups=None):
    """Return the snapshot of a job after these parts: pairs of a duration in seconds and a function of one step.

    The function gets a random generator. `scale` makes all times longer or shorter. The hub gets every `every`th step.
    """
    draw = random.Random(seed)
    history = History(size)
    learning = BaselineLearner()
    number = 0
    for seconds, step in parts:
        lasted = 0.0
        rows = []
        records = [[] for _ in range(size)]
        while lasted < seconds:
            number += 1
            rows.append([{name: s * scale for name, s in phases.items()} for phases in step(draw)])
            longest = max(sum(phases.values()) for phases in rows[-1])
            lasted += longest + 0.050 * scale
            if number % every:
                continue
            for rank in range(size):
                record = step_record(number, *_measures(rows[-1:], rank, op, scale), samples=samples)
                if lookups:
                    known = lookups[number % len(lookups)][rank]
                    record = replace(record, measures=replace(record.measures, lookups=known))
                if every > 1:
                    mean = step_record(number, *_measures(rows[-every:], rank, op, scale), samples=samples).measures
                    record = replace(record, mean=mean)
                records[rank].append(record)
            if len(records[0]) == BATCH:
                learning.add(add_records(history, dict(enumerate(records))))
                records = [[] for _ in range(size)]
        learning.add(add_records(history, dict(enumerate(records))))
    ranks = [rank_state(rank, world_size=size, host=f"node-{rank}", device=f"GPU-{rank}") for rank in range(size)]
    windows = tuple(learning.step_windows)
    return replace(snapshot(*ranks), steps=tuple(history.steps), step_windows=windows)


def _measures(rows, rank, op, scale):
    """Return the mean phases and ops of one rank in these steps."""
    number = len(rows)
    phases = {name: sum(row[rank].get(name, 0.0) for row in rows) / number for name in rows[0][rank]}
    longest = [max(sum(each.values()) for each in row) for row in rows]
    exposed = sum(longest) / number + 0.050 * scale - sum(phases.values())
    return phases, {op: exposed} if op else {}


def uneven(*shares, seconds=None, number=64, op="all_to_all", direction="received_bytes"):
    """Return steps of 30 ms of ranks with these multiples of the even share; more work means more computing."""
    seconds = seconds or [0.010 * share for share in shares]
    steps = job_steps(number, *({"phases": {"embedding": s}, "ops": {op: 0.030 - s}} for s in seconds))
    even_bytes = {op: (EVEN_BYTES,) * len(shares)}
    both = {"sent_bytes": even_bytes, "received_bytes": even_bytes}
    both[direction] = {op: tuple(round(EVEN_BYTES * share) for share in shares)}
    return [changed(step, **both) for step in steps]


def with_lookups(*lookups):
    """Return steps in which rank 2 computes longer, and the ranks have these lookups."""
    return [changed(step, lookups=lookups) for step in uneven(1, 1, 1, 1, seconds=SKEWED_SECONDS)]


SKEWED_SECONDS = (0.008, 0.008, 0.024, 0.008)
SKEWED_STEPS = uneven(0.33, 0.33, 3.0, 0.33, seconds=SKEWED_SECONDS)


def job_of(steps, plan=None, state=rank_state):
    """Return the snapshot of a job with one rank per host, in this state, after these steps."""
    size = len(steps[0].self_seconds) if steps else 4
    ranks = [state(rank, world_size=size, host=f"node-{rank}", device=f"GPU-{rank}") for rank in range(size)]
    return replace(snapshot(*ranks), steps=tuple(steps), plan=plan)


SECOND = (4, 5, 6, 7)  # the ranks of the second stage


def pipeline(*parts, groups=(range(4), SECOND), between=1 << 20):
    """Return the job of eight ranks in two stages, with groups of their own and transfers between them."""
    whole = job(*parts, size=8)
    steps = whole.steps
    if between:
        steps = tuple(changed(s, sent_bytes={**s.sent_bytes, "send": (between,) * 8}) for s in steps)
    sequences = [{str(number): 9 for number, group in enumerate(groups) if rank in group} for rank in range(8)]
    ranks = tuple(replace(state, sequences=sequences[state.rank]) for state in whole.ranks)
    return replace(whole, ranks=ranks, steps=steps)


@cache  # so that equal arguments give equal parts of a job
def with_longer(factor, ranks=SECOND, slow_rank=None):
    """Return a function of one step in which these ranks compute longer, and perhaps one rank twice as long again."""

    def step(draw):
        row = even(draw, 8)
        factors = [(factor if rank in ranks else 1.0) * (2.0 if rank == slow_rank else 1.0) for rank in range(8)]
        return [{**phases, "forward": f * phases["forward"]} for f, phases in zip(factors, row, strict=True)]

    return step
