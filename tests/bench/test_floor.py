"""Tests of the lower bound of a step: the work of a rank is compared with sums by hand for a small model."""

from bench.dlrm import RepeatingSource, Shape
from bench.floor import work_of

SHAPE = Shape(pooling=2, tables=2, rows=50, dim=4, global_batch=8, bottom=(5,), top=(6,))


def test_work_of_a_rank_equals_sums_by_hand() -> None:
    work = work_of(SHAPE, num_ranks=2, distinct_rows=20)  # 4 samples, 8 bags, 16 ids, 10 distinct rows
    weights = [13 * 5, 5 * 4, 7 * 6, 6 * 1]
    assert work.operations == 4 * 2 * (3 * sum(weights) - weights[0])
    assert work.lookup_bytes == (16 + 8) * 16
    assert work.update_bytes == 16 * 16 + 2 * 10 * (16 + 4)
    assert work.exchange_bytes == 2 * (2 * 8 * 16 + (16 + 8) * 4)
    assert work.reduction_bytes == 2 * 4 * (sum(weights) + 5 + 4 + 6 + 1)
    assert (
        work.traffic_bytes
        == work.lookup_bytes + work.update_bytes + work.exchange_bytes + work.reduction_bytes + work.dense_update_bytes
    )


def test_batch_of_a_rank_is_slice_of_global_batch() -> None:
    source = RepeatingSource(SHAPE)
    whole, half = source.batch(17, 0, 8), source.batch(1, 4, 4)
    assert whole.ids.view(2, 8, 2)[:, 4:].reshape(-1).tolist() == half.ids.tolist()
    assert whole.dense[4:].tolist() == half.dense.tolist()
    assert whole.labels[4:].tolist() == half.labels.tolist()
    assert 1 < source.distinct_rows() <= 2 * 8 * 2


def test_source_generates_nothing_in_a_step_after_generate(monkeypatch) -> None:
    source = RepeatingSource(SHAPE)
    source.generate(rank=1, num_ranks=2)
    monkeypatch.setattr(source, "_slice", None)  # a call would raise TypeError
    assert all(source.batch(step, 4, 4).labels.shape == (4,) for step in range(20))
