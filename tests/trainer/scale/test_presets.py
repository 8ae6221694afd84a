"""Tests of the presets: each of them trains two steps. Rows and bags of Criteo and MLPerf are the documented ones."""

import pytest

from trainer.keys import apply_changes
from trainer.loader import Extent, Loader
from trainer.loop import steps
from trainer.scale.presets import KAGGLE_ROWS, MLPERF_BAGS, MLPERF_ROWS, PRESETS, mlperf_dcnv2

SMALLER = {  # for tests: 2.2 GB of tables and a second per step are too much
    "criteo_kaggle": {"embedding": {"rows": [min(rows, 1000) for rows in KAGGLE_ROWS]}},
    "mlperf_dcnv2": {"train": {"global_batch": 16}},
}


@pytest.mark.parametrize("name", PRESETS)
def test_every_preset_trains(open_run, name: str) -> None:
    config = apply_changes(PRESETS[name](), [SMALLER.get(name, {}), {"train": {"steps": 2}}])
    run = open_run(config)
    with Loader(run.source, Extent.of_steps(2, config.train.global_batch), 0, 1, depth=0) as batches:
        losses = [result.sums.numbers().log_loss / result.samples for result in steps(run.trainer, batches)]
    assert len(losses) == 2
    assert all(0.3 < loss < 3 for loss in losses)


def test_rows_are_the_published_ones() -> None:
    config = mlperf_dcnv2()
    assert sum(MLPERF_ROWS) == 204_184_588
    assert sum(config.embedding.rows) == pytest.approx(sum(MLPERF_ROWS) / 1000, rel=1e-3)
    assert config.train.global_batch * 128 == 65_536
    assert config.synthetic.pooling(26) == MLPERF_BAGS
    assert sum(MLPERF_BAGS) == 214
    assert sum(KAGGLE_ROWS) == 33_762_577
