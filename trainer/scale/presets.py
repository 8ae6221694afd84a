"""The presets: well-known models as configurations."""

from collections.abc import Callable

from trainer.config import TrainConfig
from trainer.dense import ModelConfig
from trainer.optimizers import OptimizerConfig
from trainer.scale.config import RunConfig
from trainer.schedule import ScheduleConfig
from trainer.synthetic import SyntheticConfig
from trainer.tables import EmbeddingConfig

# Distinct values of each categorical feature of Criteo Kaggle, as in facebookresearch/dlrm (tools/visualize.py).
KAGGLE_ROWS = (
    1460, 583, 10131227, 2202608, 305, 24, 12517, 633, 3, 93145, 5683, 8351593, 3194, 27, 14992, 5461306, 10, 5652,
    2173, 4, 7046547, 18, 15, 286181, 105, 142572,
)  # fmt: skip

# Rows and pooling factors of MLPerf's DLRM-DCNv2 (Criteo 1 TB, multi-hot), from mlcommons/training, recommendation_v2.
MLPERF_ROWS = (
    40000000, 39060, 17295, 7424, 20265, 3, 7122, 1543, 63, 40000000, 3067956, 405282, 10, 2209, 11938, 155, 4, 976, 14,
    40000000, 40000000, 40000000, 590152, 12973, 108, 36,
)  # fmt: skip
MLPERF_BAGS = (3, 2, 1, 2, 6, 1, 1, 1, 1, 7, 3, 8, 1, 6, 9, 5, 1, 1, 1, 12, 100, 27, 10, 3, 1, 1)
MLPERF_ROWS_SCALE = 1000  # 204 million rows become 204 thousand: 105 MB, and as many for the state of their optimizer
MLPERF_BATCH = 65_536
MLPERF_BATCH_SCALE = 128  # a step of one rank takes about a second on one core; total memory is 0.9 GB


def demo() -> RunConfig:
    """Return a small model in the shape of Criteo. A step of 4 ranks on 2 cores takes tens of milliseconds."""
    rows = (20_000, 15_000, 12_000, 10_000, 8_000, 6_000, 5_000, 4_000, 3_000, 2_500, 2_000, 2_000, 1_500)
    return RunConfig(embedding=EmbeddingConfig(rows=rows + (1_000,) * 13))


def criteo_kaggle() -> RunConfig:
    """Return the model of facebookresearch/dlrm's bench/dlrm_s_criteo_kaggle.sh: 33.8 million rows of 16, 2.2 GB."""
    return RunConfig(
        embedding=EmbeddingConfig(rows=KAGGLE_ROWS, dim=16),
        train=TrainConfig(global_batch=128),
        model=ModelConfig(bottom=(512, 256, 64), top=(512, 256)),
        optimizer=OptimizerConfig(dense="sgd", dense_learning_rate=0.1, embedding="sgd", embedding_learning_rate=0.1),
        synthetic=SyntheticConfig(shortest_bag=1, longest_bag=1),
    )


def mlperf_dcnv2() -> RunConfig:
    """Return MLPerf's DLRM-DCNv2 with a thousandth of its rows, 3 or more per table, and a 128th of its batch.

    Dense layers, pooling factors, optimizers and learning rates are the same as in MLPerf. MLPerf has no warm-up. This
    preset has one, because without it the first update raises the loss far above the loss of a constant prediction.
    """
    return RunConfig(
        embedding=EmbeddingConfig(rows=tuple(max(3, rows // MLPERF_ROWS_SCALE) for rows in MLPERF_ROWS), dim=128),
        train=TrainConfig(global_batch=MLPERF_BATCH // MLPERF_BATCH_SCALE),
        model=ModelConfig(
            bottom=(512, 256), top=(1024, 1024, 512, 256), interaction="cross", cross_layers=3, cross_rank=512
        ),
        optimizer=OptimizerConfig(dense_learning_rate=0.005, embedding="adagrad", embedding_learning_rate=0.005),
        schedule=ScheduleConfig(warmup_steps=200),
        synthetic=SyntheticConfig(shortest_bag=MLPERF_BAGS, longest_bag=MLPERF_BAGS),
    )


PRESETS: dict[str, Callable[[], RunConfig]] = {
    preset.__name__: preset for preset in (demo, criteo_kaggle, mlperf_dcnv2)
}
