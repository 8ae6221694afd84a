"""Tests of the parts of a predicted step against sums by hand, and of their text."""

import pytest

from tests.trainer.scale.sharding.build import MACHINE, TABLE
from trainer.scale.dry_run import Job, as_text, rank_steps
from trainer.scale.published import DenseWork
from trainer.scale.sharding.plan import Plan
from trainer.scale.sharding.planner import predict
from trainer.scale.sharding.workload import Workload
from trainer.sharding import Placement

DENSE = DenseWork(parameters=10, operations=1e6)


def planned(rank: int, samples: tuple[int, ...]) -> tuple[Plan, Workload]:
    """Return the plan that has the table on this rank, and its workload."""
    workload = Workload((TABLE,), samples)
    return predict(Plan(len(samples), (Placement("table_wise", (rank,)),)), workload, MACHINE, 0), workload


def steps(rate: float):
    """Return the step of each rank, if a rank computes this many operations per second."""
    return rank_steps(*planned(0, (5, 5)), MACHINE, DENSE, rate)


def test_dense_seconds_are_operations_or_bytes() -> None:
    assert steps(rate=1e9)[0].dense_seconds == 5e6 / 1e9
    assert steps(rate=1e15)[0].dense_seconds == pytest.approx(4 * 8 * 10 / 1e9)


def test_vectors_are_exposed_and_ids_run_during_computation() -> None:
    assert steps(rate=1e9)[1].exposed_seconds == pytest.approx(2 * 160e-6)
    slow = steps(rate=1e15)[1]  # 60 µs of ids and 40 of the all-reduce, during 0.32 µs of dense layers
    assert slow.exposed_seconds == pytest.approx((2 * 160 + 60 + 40 - 0.32) * 1e-6)


def test_rate_is_that_of_the_slowest_rank() -> None:
    plan, workload = planned(0, (5, 5))
    predicted_steps = rank_steps(plan, workload, MACHINE, DENSE, 1e9)
    slowest = max(step.dense_seconds + step.table_seconds + step.exposed_seconds for step in predicted_steps)
    text = as_text(plan, workload, predicted_steps, published_rate=1000.0)
    assert f"{10 / slowest:,.0f} samples/s, {10 / slowest / 1000:.2f} × the published 1,000" in text


def test_text_has_the_slowest_ranks_only() -> None:
    plan, workload = planned(19, (5,) * 20)
    lines = as_text(plan, workload, rank_steps(plan, workload, MACHINE, DENSE, 1e9), None).splitlines()
    assert "and 12 faster ranks" in lines
    assert any(line.startswith("  19       1") for line in lines)
    assert "published" not in lines[-1]


def test_memory_without_tables_is_weights_gradients_state_and_activations_of_dense_layers() -> None:
    dense = DenseWork(parameters=10, operations=0.0, activations=3)
    job = Job(
        facts=(),
        workload=Workload((TABLE,), samples=(5, 4)),
        machine=MACHINE,
        dense=dense,
        operations_per_second=1e9,
        kinds=("auto",),
        memory_bytes=0,
        host_memory_bytes=0,
        disk_bytes=0,
    )
    assert job.base_bytes == 4 * (30 + 15)
