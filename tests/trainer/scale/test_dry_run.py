"""Tests of the parts of a predicted step, by hand."""

import pytest

from trainer.scale.dry_run import Job, as_text, rank_steps
from trainer.scale.published import DenseWork
from trainer.scale.sharding.plan import Plan
from trainer.scale.sharding.planner import predict
from trainer.scale.sharding.workload import Machine, Table, Workload
from trainer.sharding import Placement

MACHINE = Machine(memory_bandwidth=1e9, lookup_seconds=0.0, network_bandwidth=1e6, host_bandwidth=1e5, ranks_per_host=2)
TABLE = Table(rows=100, dim=8, pooling=2.0)
DENSE = DenseWork(parameters=10, operations=1e6)


def steps(
    ranks: tuple[int, ...],
    samples: tuple[int, ...],
    dense: DenseWork = DENSE,
    rate: float = 1e9,
    kind: str = "table_wise",
    **more,
):
    workload = Workload((TABLE,), samples, **more)
    plan = predict(Plan(len(samples), (Placement(kind, ranks),)), workload, MACHINE, 0)
    return rank_steps(plan, workload, MACHINE, dense, rate)


def sent_bytes(step):
    """Return the bytes to ranks of its host, and to other hosts."""
    return step.bytes_within_host, step.bytes_across_hosts


def test_dense_seconds_are_operations_or_bytes() -> None:
    assert steps((0,), (5, 5))[0].dense_seconds == 5e6 / 1e9
    assert steps((0,), (5, 5), rate=1e15)[0].dense_seconds == pytest.approx(4 * 8 * 10 / 1e9)


def test_vectors_are_exposed_and_ids_run_during_computation() -> None:
    assert steps((0,), (5, 5))[1].exposed_seconds == pytest.approx(2 * 160e-6)
    slow = steps((0,), (5, 5), rate=1e15)[1]  # 60 µs of ids and 40 of the all-reduce, during 0.32 µs of dense layers
    assert slow.exposed_seconds == pytest.approx((2 * 160 + 60 + 40 - 0.32) * 1e-6)


def test_bytes_are_split_by_host() -> None:
    near, far = steps((0,), (5, 5))[1], steps((0,), (5, 0, 5, 0))[2]
    assert sent_bytes(near) == (60 + 160, 0)  # ids and gradients, with nothing to itself
    assert sent_bytes(far) == (0, 60 + 160)


def test_bytes_of_shards_to_each_other_are_split_by_host() -> None:
    """Ids and lengths of 5 samples are 60 bytes for all columns, 40 for half of the rows; 10 vectors of 32 bytes."""
    rows = steps((0, 1), (5, 5), kind="table_row_wise")
    assert [sent_bytes(step) for step in rows] == [(40 + 2 * 160, 0)] * 2
    columns, alone = (
        steps((0, 1, 2, 3), (5, 5, 5, 5), kind="column_wise", shared_moments=shared) for shared in (True, False)
    )
    vectors = 5 * 8 + 5 * 8  # of 2 columns, to samples and from them
    assert sent_bytes(alone[0]) == (60 + vectors, 2 * (60 + vectors))
    squares = 40 * 4
    assert sent_bytes(columns[0]) == (60 + vectors + squares, 2 * (60 + vectors + squares))


def test_rate_is_that_of_the_slowest_rank() -> None:
    workload = Workload((TABLE,), (5, 5))
    plan = predict(Plan(2, (Placement("table_wise", (0,)),)), workload, MACHINE, 7)
    predicted_steps = rank_steps(plan, workload, MACHINE, DENSE, 1e9)
    slowest = max(step.dense_seconds + step.table_seconds + step.exposed_seconds for step in predicted_steps)
    text = as_text(plan, workload, predicted_steps, published_rate=1000.0)
    assert f"{10 / slowest:,.0f} samples/s, {10 / slowest / 1000:.2f} × the published 1,000" in text


def test_text_has_the_slowest_ranks_only() -> None:
    workload = Workload((TABLE,), (5,) * 20)
    plan = predict(Plan(20, (Placement("table_wise", (19,)),)), workload, MACHINE, 0)
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
