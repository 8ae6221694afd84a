"""The configuration of `python -m trainer`: the sections of the core, and of sharding, data, checkpoints and checks."""

from dataclasses import dataclass, field

from trainer.config import Config
from trainer.errors import require
from trainer.scale.checkpoint import CheckpointConfig
from trainer.scale.criteo import DENSE_FEATURES, SPARSE_FEATURES, CriteoConfig
from trainer.scale.pooled_check import CheckConfig
from trainer.scale.sharding.planner import ShardingConfig
from trainer.synthetic import SyntheticConfig


@dataclass(frozen=True)
class RunConfig(Config):
    """The sections of the configuration; the name of a section is the part of a key before the dot."""

    sharding: ShardingConfig = field(default_factory=ShardingConfig)
    synthetic: SyntheticConfig = field(default_factory=SyntheticConfig)
    criteo: CriteoConfig = field(default_factory=CriteoConfig)
    checkpoint: CheckpointConfig = field(default_factory=CheckpointConfig)
    check: CheckConfig = field(default_factory=CheckConfig)

    def __post_init__(self) -> None:
        super().__post_init__()
        resume, folder = self.checkpoint.resume, self.checkpoint.folder
        must = "auto or none if checkpoint.folder is empty"
        require(bool(folder) or not resume.isdecimal(), "checkpoint.resume", resume, must)
        self._check_rows()
        if self.criteo.file:
            dense, tables = self.model.dense_features, len(self.embedding.rows)
            require(dense == DENSE_FEATURES, "model.dense_features", dense, f"{DENSE_FEATURES} to train on Criteo rows")
            must = f"{SPARSE_FEATURES} for Criteo rows"
            require(tables == SPARSE_FEATURES, "embedding.rows", f"{tables} tables", must)
        else:
            epochs = self.train.epochs
            require(epochs == 0, "train.epochs", epochs, "0 for synthetic samples, which never end")
            self.synthetic.of_tables(len(self.embedding.rows))

    def _check_rows(self) -> None:
        """Raise ConfigError if rows on a disk or in half precision do not fit the other keys."""
        embedding, tier = self.embedding, self.embedding.tier
        if embedding.dtype:
            must = "auto or torch if embedding.dtype is set"
            require(embedding.kernel != "fbgemm", "embedding.kernel", embedding.kernel, must)
        if tier.folder:
            must = "auto or torch if embedding.tier.folder is set"
            require(embedding.kernel != "fbgemm", "embedding.kernel", embedding.kernel, must)
            must = "above 0 if embedding.tier.folder is set"
            require(embedding.memory > 0, "embedding.memory", embedding.memory, must)
            encrypts = bool(self.criteo.key_file or self.checkpoint.key_file)
            must = "empty if data or checkpoints are encrypted, unless embedding.tier.folder_is_encrypted"
            require(tier.folder_is_encrypted or not encrypts, "embedding.tier.folder", tier.folder, must)
