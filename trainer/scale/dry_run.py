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
from trainer.scale.sharding.cost import PER_SECOND, Load, plan_cost
from trainer.scale.sharding.plan import Plan
from trainer.scale.sharding.step import Step
from trainer.scale.sharding.text import columns, in_bytes, table_of_slowest
from trainer.scale.sharding.workload import Machine, Workload

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
    operations_per_second: float  # of a rank in dense layers
    kinds: tuple[str, ...]  # of each table
    memory_bytes: int  # limits of a rank
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
    dense_seconds: float
    table_seconds: float
    exposed_seconds: float
    bytes_within_host: int
    bytes_across_hosts: int

    @property
    def seconds(self) -> float:
        """The seconds of the step, if no other rank is slower."""
        return self.dense_seconds + self.table_seconds + self.exposed_seconds


def rank_steps(
    plan: Plan, workload: Workload, machine: Machine, dense: DenseWork, operations_per_second: float
) -> list[RankStep]:
    """Return the predicted step of each rank."""
    step, loads = Step(workload, machine), plan_cost(plan.tables, workload, machine)
    samples = np.array(workload.samples, dtype=np.float64)
    traffic = DENSE_BYTES * _DENSE_PASSES * dense.parameters
    compute = np.maximum(samples * dense.operations / operations_per_second, traffic / machine.memory_bandwidth)
    tables, exchange = loads[Load.WORK] / PER_SECOND, step.exchanges(loads)
    reduction = machine.all_reduce_seconds(float(DENSE_BYTES * dense.parameters), plan.num_ranks)
    not_hidden = np.maximum(exchange[Load.IDS] + reduction - compute - tables, 0)
    exposed = exchange[Load.POOLED] + exchange[Load.GRADIENTS] + not_hidden
    within = step.within_hosts(loads).sum(axis=0) + loads[Load.NEAR]
    across = step.crossing_hosts(loads).sum(axis=0) + loads[Load.FAR]
    return [
        RankStep(
            rank=rank,
            dense_seconds=float(compute[rank]),
            table_seconds=float(tables[rank]),
            exposed_seconds=float(exposed[rank]),
            bytes_within_host=round(within[rank]),
            bytes_across_hosts=round(across[rank]),
        )
        for rank in range(plan.num_ranks)
    ]


def as_text(plan: Plan, workload: Workload, steps: Sequence[RankStep], published_rate: float | None) -> str:
    """Return the dry run as text: tables by kind, the slowest ranks, the step and its samples/s."""
    return "\n".join(
        [
            *columns([("kind", "tables", "rows", "bytes"), *_rows_of_kinds(plan, workload)], left=(0,)),
            "",
            *table_of_slowest(_head(plan), [step.seconds for step in steps], lambda rank: _row(steps[rank], plan)),
            "",
            *_summary(plan, workload, steps, published_rate),
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
    parts = (step.dense_seconds, step.table_seconds, step.exposed_seconds, step.seconds)
    return (
        str(step.rank),
        str(len(load.tables)),
        *map(in_bytes, (load.memory_bytes, load.memory.host, *disk, step.bytes_within_host, step.bytes_across_hosts)),
        *(f"{part * 1e3:.3g} ms" for part in parts),
    )


def _rows_of_kinds(plan: Plan, workload: Workload) -> Iterator[tuple[str, ...]]:
    for kind in KINDS:
        tables = [
            table for table, placement in zip(workload.tables, plan.tables, strict=True) if placement.kind == kind
        ]
        if tables:
            weight_bytes = workload.element_bytes if KINDS[kind].replicated else workload.weight_bytes
            size = sum(table.rows * table.dim for table in tables) * weight_bytes
            yield kind, f"{len(tables):,}", f"{sum(table.rows for table in tables):,}", in_bytes(size)


def _summary(plan: Plan, workload: Workload, steps: Sequence[RankStep], published_rate: float | None) -> Iterator[str]:
    slowest = max(step.seconds for step in steps)
    mean = sum(step.seconds for step in steps) / len(steps)
    rate = sum(workload.samples) / slowest
    memory = [load.memory_bytes for load in plan.predicted]
    host = [load.memory.host for load in plan.predicted]
    yield f"step {slowest * 1e3:.3g} ms, {slowest / mean:.3f} × the mean of all ranks"
    disk = f"; on disks {in_bytes(sum(load.memory.disk for load in plan.predicted))}" if _uses_disk(plan) else ""
    totals = f"of all {in_bytes(sum(memory))}; of hosts {in_bytes(sum(host))}{disk}"
    yield f"memory of a rank {in_bytes(max(memory))}, {totals}"
    compared = f", {rate / published_rate:.2f} × the published {published_rate:,.0f}" if published_rate else ""
    yield f"{rate:,.0f} samples/s{compared}"
