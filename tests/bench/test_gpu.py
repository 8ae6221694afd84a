"""Tests of the GPU benchmark, on a CPU with a small model and without a GPU."""

import time

from bench import gpu
from bench.dlrm import Shape
from tests.trainer.conftest import single_rank_world  # noqa: F401


def wall_seconds(call, times: int) -> float:
    begin = time.perf_counter()
    for _ in range(times):
        call()
    return (time.perf_counter() - begin) / times


def test_measurement_has_every_row_with_value_above_zero(single_rank_world) -> None:  # noqa: F811
    shape = Shape(pooling=3, tables=2, rows=50, dim=4, global_batch=8, bottom=(5,), top=(5,))
    rows = list(gpu.measure(single_rank_world, shape, gpu.Ceiling(copied_bytes=1000, width=8), 2, wall_seconds))
    assert [row.name for row in rows] == [
        "samples", "step", "rows: read and written", "a copy: read and written", "rows, of a copy",
        "MLPs", "a product of 8²", "MLPs, of a product",
    ]  # fmt: skip
    assert all(row.value > 0 for row in rows)


def test_benchmark_without_gpu_prints_message(capsys, monkeypatch) -> None:
    monkeypatch.setattr("sys.argv", ["gpu"])
    monkeypatch.setattr(gpu.torch.cuda, "is_available", lambda: False)
    gpu.main()
    assert capsys.readouterr().out.startswith("This machine has no GPU")
