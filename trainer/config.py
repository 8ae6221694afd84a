"""The configuration of training: one section for each part of the core.

`trainer/scale/config.py` adds the sections of the command `python -m trainer`.
"""

from dataclasses import dataclass, field

import torch

from trainer.dense import ModelConfig
from trainer.errors import require
from trainer.exchange import WireConfig
from trainer.flat import OverlapConfig
from trainer.optimizers import OptimizerConfig
from trainer.schedule import ScheduleConfig
from trainer.tables import EmbeddingConfig

DTYPES = {"float32": torch.float32, "float64": torch.float64}


@dataclass(frozen=True)
class TrainConfig:
    steps: int = 0  # steps to train; 0: as many as train.epochs needs
    epochs: int = 0  # passes over the data; 0: train until stopped
    global_batch: int = 512  # samples of a step over all ranks
    dtype: str = "float32"  # type of weights and computation: float32 or float64
    autocast: bool = True  # compute matrix products of dense layers in bfloat16 on GPUs
    cpu_autocast: bool = False  # compute matrix products of dense layers in bfloat16 on CPUs; faster with avx512_bf16
    seed: int = 1  # seed of initial weights and synthetic samples
    progress_every: int = 50  # steps between two lines of progress
    stop_at_nan: bool = True  # end the run when the loss is NaN or infinite: later steps learn nothing

    def __post_init__(self) -> None:
        require(self.steps >= 0, "train.steps", self.steps, "0 (as many as train.epochs needs) or more")
        require(self.epochs >= 0, "train.epochs", self.epochs, "0 (train until stopped) or more")
        require(not (self.steps and self.epochs), "train.epochs", self.epochs, "0 if train.steps is set")
        require(self.global_batch > 0, "train.global_batch", self.global_batch, "1 or more")
        require(self.dtype in DTYPES, "train.dtype", self.dtype, " or ".join(DTYPES))
        require(0 <= self.seed < 2**63, "train.seed", self.seed, "0 or more, and below 2^63")
        require(self.progress_every > 0, "train.progress_every", self.progress_every, "1 or more")

    def computes_in_bfloat16(self, device: str) -> bool:
        """Return True if matrix products are computed in bfloat16 on such a device, `cuda` or `cpu`."""
        return self.dtype == "float32" and (self.autocast if device == "cuda" else self.cpu_autocast)


@dataclass(frozen=True)
class LoaderConfig:
    depth: int = 2  # batches read ahead of training; 0: read each batch in its step, without a thread

    def __post_init__(self) -> None:
        require(self.depth >= 0, "loader.depth", self.depth, "0 or more")


@dataclass(frozen=True)
class EvaluationConfig:
    every: int = 0  # steps between two evaluations; 0: never
    batches: int = 20  # global batches of one evaluation, or fewer if there are fewer held-out samples

    def __post_init__(self) -> None:
        require(self.every >= 0, "evaluation.every", self.every, "0 (never) or more")
        require(self.batches > 0, "evaluation.batches", self.batches, "1 or more")


@dataclass(frozen=True)
class Config:
    """The sections of the configuration; the name of a section is the part of a key before the dot."""

    embedding: EmbeddingConfig
    train: TrainConfig = field(default_factory=TrainConfig)
    model: ModelConfig = field(default_factory=ModelConfig)
    wire: WireConfig = field(default_factory=WireConfig)
    overlap: OverlapConfig = field(default_factory=OverlapConfig)
    optimizer: OptimizerConfig = field(default_factory=OptimizerConfig)
    schedule: ScheduleConfig = field(default_factory=ScheduleConfig)
    loader: LoaderConfig = field(default_factory=LoaderConfig)
    evaluation: EvaluationConfig = field(default_factory=EvaluationConfig)

    @property
    def weight_bytes(self) -> int:
        """The bytes of a weight of a sharded table."""
        return int(getattr(torch, self.embedding.dtype or self.train.dtype).itemsize)

    def __post_init__(self) -> None:
        if self.model.interaction == "dot":
            must = "equal for all tables, or set model.interaction=cross"
            require(len(set(self.embedding.dims)) == 1, "embedding.dim", self.embedding.dim, must)
