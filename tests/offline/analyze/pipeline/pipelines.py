"""Make traces of pipelines as a trainer would record them: one forward and one backward at a time, blocking transfers.

The start of each operation follows from rules that are written here and not taken from zmon. So the replay of a trace
with other durations can be compared with the trace that is made with these durations.
"""

from collections import defaultdict
from math import inf

FORWARD, BACKWARD, TRANSFER, GATHER, SYNC, OPTIMIZER = 0.1, 0.2, 0.001, 0.01, 0.05, 0.02  # seconds


def rows(factor=lambda step, data_rank, stage, batch: 1.0, steps=2, data_ranks=2, stages=3, batches=6, first_step=0):
    """Return the rows of a trace; `factor` multiplies the computation of one microbatch of one worker in one step."""
    trace = []
    for step in range(first_step, first_step + steps):
        trace += _step(step, data_ranks, stages, batches, factor)
    return trace


def duration(rows):
    """Return the mean duration of the steps in seconds."""
    ends, begins = defaultdict(float), defaultdict(lambda: inf)
    for row in rows:
        ends[row["step"]] = max(ends[row["step"]], row["start_ts"] + row["duration"])
        begins[row["step"]] = min(begins[row["step"]], row["start_ts"])
    return sum(ends[step] - begins[step] for step in ends) / len(ends)


def _step(step, data_ranks, stages, batches, factor):
    """Return the rows of one step."""
    trace = []
    free = defaultdict(float)  # by worker: the time at which its last operation ends
    sequence = defaultdict(int)  # by worker and kind: the number of operations so far

    def add(data_rank, stage, kind, start, end, batch=-1):
        trace.append({
            "dp_rank": data_rank, "stage": stage, "rank": stage * data_ranks + data_rank, "step": step, "optype": kind,
            "start_ts": start, "duration": end - start, "seq_id": sequence[data_rank, stage, kind], "mc": 0,
            "mb_id": batch,
        })  # fmt: skip
        sequence[data_rank, stage, kind] += 1

    workers = [(data_rank, stage) for data_rank in range(data_ranks) for stage in range(stages)]
    _together(add, free, workers, "params-all-gather", GATHER)
    for data_rank in range(data_ranks):
        _pipeline(add, free, data_rank, stages, batches, lambda d, s, b: factor(step, d, s, b))
    _together(add, free, workers, "grads-reduce-scatter", SYNC)
    for data_rank, stage in workers:
        begin = free[data_rank, stage]
        add(data_rank, stage, "optimizer", begin, begin + OPTIMIZER)
    return trace


def _together(add, free, workers, kind, seconds):
    """Add a collective for each stage, which ends `seconds` after its last worker is ready."""
    for stage in {stage for _, stage in workers}:
        members = [worker for worker in workers if worker[1] == stage]
        ready = max(free[worker] for worker in members)
        for worker in members:
            add(*worker, kind, free[worker], ready + seconds)
            free[worker] = ready + seconds


def _pipeline(add, free, data_rank, stages, batches, factor):
    """Run the tasks of each stage in their order, each as soon as its input is there."""
    queues = {stage: _order(stage, stages, batches) for stage in range(stages)}
    done = {}  # by kind, batch and stage: the end of the computation
    while any(queues.values()):
        for stage, tasks in queues.items():
            if not tasks:
                continue
            kind, batch = tasks[0]
            source = stage - 1 if kind == "forward" else stage + 1
            worker = (data_rank, stage)
            needs_input = 0 <= source < stages
            if needs_input and (kind, batch, source) not in done:
                continue
            tasks.pop(0)
            if needs_input:
                arrival = max(free[worker], done[kind, batch, source]) + TRANSFER
                add(*worker, f"{kind}-recv", free[worker], arrival)
                add(data_rank, source, f"{kind}-send", done[kind, batch, source], arrival)
                free[worker] = arrival
            seconds = (FORWARD if kind == "forward" else BACKWARD) * factor(data_rank, stage, batch)
            add(*worker, f"{kind}-compute", free[worker], free[worker] + seconds, batch)
            free[worker] += seconds
            done[kind, batch, stage] = free[worker]


def _order(stage, stages, batches):
    """Return the tasks of a stage: forwards to fill the pipeline, then a backward after each forward."""
    ahead = min(stages - stage - 1, batches)
    tasks = [("forward", batch) for batch in range(ahead)]
    for batch in range(batches):
        tasks += [("forward", batch + ahead)] if batch + ahead < batches else []
        tasks.append(("backward", batch))
    return tasks
