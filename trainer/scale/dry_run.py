"""The prediction of a step of a whole job from its plan, for each rank, without a process group and without tables.

A roofline: every part takes as long as its operations or its bytes need at full rate.

    dense     the operations of the dense layers ÷ rate, or their bytes ÷ memory bandwidth, whichever is longer
    tables    lookups and updates (cost.py)
    exposed   the all-to-alls of pooled vectors and their gradients. The ids of the next batch and the all-reduce of
              dense gradients run during dense and tables, and only what takes longer than both is exposed

The step is that of the slowest rank. Latencies, kernels that do not reach the full rate, and input are left out.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from trainer.registry import KINDS
from trainer.scale.published import DenseWork
from trainer.scale.sharding.cost import FAR, GRADIENTS, IDS, NEAR, PER_SECOND, POOLED, WORK, plan_cost
from trainer.scale.sharding.plan import Plan
from trainer.scale.sharding.step import Step
from trainer.scale.sharding.text import columns, in_bytes, table_of_slowest
from trainer.scale.sharding.workload import Array, Machine, Workload

_DENSE_STATE = 3  # numbers for each dense parameter: weight, gradient, optimizer state
# How often a step reads or writes each dense parameter: two reads in forward and backward, a gradient written, and an
# update that reads three numbers and writes two
_DENSE_PASSES = 8
DENSE_BYTES = 4  # bytes of a number in the dense layers


@dataclass(frozen=True)
class Job:
    """The input of a dry run: a workload, a machine, limits of memory, and lines to print about them."""

    facts: tuple[str, ...]  # lines to print
    workload: Workload
    machine: Machine
    dense: DenseWork
    operations_per_second: float
    kinds: tuple[str, ...]
    memory_bytes: int
    host_memory_bytes: int
    disk_bytes: int
    published_samples_per_second: float | None = None

    @property
    def base_bytes(self) -> int:
        """The bytes of a rank without tables: its dense layers."""
        numbers = _DENSE_STATE * self.dense.parameters + self.dense.activations * max(self.workload.samples)
        return DENSE_BYTES * numbers


@dataclass(frozen=True)
class RankStep:
    """The predicted step of one rank: seconds, and bytes sent to other ranks in all-to-alls."""

    rank: int
    dense: float
    tables: float
    exposed: float
    within_hosts: int
    across_hosts: int

    @property
    def seconds(self) -> float:
        """The seconds of the step, if no other rank is slower."""
        return self.dense + self.tables + self.exposed


def rank_steps(
    plan: Plan, workload: Workload, machine: Machine, dense: DenseWork, operations_per_second: float
) -> list[RankStep]:
    """Return the predicted step of each rank."""
    step, loads = Step(workload, machine), plan_cost(plan.tables, workload, machine)
    samples = np.array(workload.samples, dtype=np.float64)
    compute = _dense_seconds(samples, dense, machine, operations_per_second)
    tables, exchange = loads[WORK] / PER_SECOND, step.exchanges(loads)
    reduction = machine.all_reduce_seconds(float(DENSE_BYTES * dense.parameters), plan.num_ranks)
    not_hidden = np.maximum(exchange[IDS] + reduction - compute - tables, 0)
    exposed = exchange[POOLED] + exchange[GRADIENTS] + not_hidden
    within = step.within_hosts(loads).sum(axis=0) + loads[NEAR]
    across = step.crossing_hosts(loads).sum(axis=0) + loads[FAR]
    return [
        RankStep(
            rank=rank,
            dense=float(compute[rank]),
            tables=float(tables[rank]),
            exposed=float(exposed[rank]),
            within_hosts=round(within[rank]),
            across_hosts=round(across[rank]),
        )
        for rank in range(plan.num_ranks)
    ]


def _dense_seconds(samples: Array, dense: DenseWork, machine: Machine, operations_per_second: float) -> Array:
    operations = samples * dense.operations / operations_per_second
    traffic = DENSE_BYTES * _DENSE_PASSES * dense.parameters / machine.memory_bandwidth
    seconds: Array = np.maximum(operations, traffic)
    return seconds


def as_text(plan: Plan, workload: Workload, steps: Sequence[RankStep], published: float | None) -> str:
    """Return the dry run as text: tables by kind, the slowest ranks, the step and its samples/s."""
    return "\n".join(
        [
            *columns([("kind", "tables", "rows", "bytes"), *_kinds(plan, workload)], left=(0,)),
            "",
            *table_of_slowest(_head(plan), [step.seconds for step in steps], lambda rank: _row(steps[rank], plan)),
            "",
            *_summary(plan, workload, steps, published),
        ]
    )


def _head(plan: Plan) -> tuple[str, ...]:
    tiers = ("memory", "of host", *(["on disk"] if _uses_disk(plan) else []))
    return ("rank", "tables", *tiers, "within hosts", "across", "dense", "tables", "exposed", "step")


def _uses_disk(plan: Plan) -> bool:
    return any(load.memory.disk for load in plan.predicted)


def _row(step: RankStep, plan: Plan) -> tuple[str, ...]:
    load = plan.predicted[step.rank]
    disk = [load.memory.disk] if _uses_disk(plan) else []
    return (
        str(step.rank),
        str(len(load.tables)),
        *map(in_bytes, (load.memory_bytes, load.memory.host, *disk, step.within_hosts, step.across_hosts)),
        *(f"{seconds * 1e3:.3g} ms" for seconds in (step.dense, step.tables, step.exposed, step.seconds)),
    )


def _kinds(plan: Plan, workload: Workload) -> Iterator[tuple[str, ...]]:
    for kind in KINDS:
        tables = [
            table for table, placement in zip(workload.tables, plan.tables, strict=True) if placement.kind == kind
        ]
        if tables:
            weight_bytes = workload.element_bytes if KINDS[kind].replicated else workload.weight_bytes
            size = sum(table.rows * table.dim for table in tables) * weight_bytes
            yield kind, f"{len(tables):,}", f"{sum(table.rows for table in tables):,}", in_bytes(size)


def _summary(plan: Plan, workload: Workload, steps: Sequence[RankStep], published: float | None) -> Iterator[str]:
    slowest = max(step.seconds for step in steps)
    mean = sum(step.seconds for step in steps) / len(steps)
    rate = sum(workload.samples) / slowest
    memory = [load.memory_bytes for load in plan.predicted]
    host = [load.memory.host for load in plan.predicted]
    yield f"step {slowest * 1e3:.3g} ms, {slowest / mean:.3f} × the mean of all ranks"
    disk = f"; on disks {in_bytes(sum(load.memory.disk for load in plan.predicted))}" if _uses_disk(plan) else ""
    totals = f"of all {in_bytes(sum(memory))}; of hosts {in_bytes(sum(host))}{disk}"
    yield f"memory of a rank {in_bytes(max(memory))}, {totals}"
    yield f"{rate:,.0f} samples/s" + (f", {rate / published:.2f} × the published {published:,.0f}" if published else "")
