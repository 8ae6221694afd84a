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
        folder, resume = self.checkpoint.folder, self.checkpoint.resume
        must = "auto or none if checkpoint.folder is empty"
        require(bool(folder) or not resume.isdecimal(), "checkpoint.resume", resume, must)
        on_disk = bool(self.embedding.tier.folder)
        must = "above 0 if embedding.tier.folder is set"
        require(not on_disk or self.embedding.memory > 0, "embedding.memory", self.embedding.memory, must)
        for key, is_set in (("embedding.tier.folder", on_disk), ("embedding.dtype", bool(self.embedding.dtype))):
            kernel = self.embedding.kernel
            require(not is_set or kernel != "fbgemm", "embedding.kernel", kernel, f"auto or torch if {key} is set")
        is_encrypted = bool(self.criteo.key_file or self.checkpoint.key_file)
        must = "empty if data or checkpoints are encrypted, unless embedding.tier.folder_is_encrypted"
        tier = self.embedding.tier
        require(not (on_disk and is_encrypted) or tier.folder_is_encrypted, "embedding.tier.folder", tier.folder, must)
        if self.criteo.file:
            dense, tables = self.model.dense_features, len(self.embedding.rows)
            require(dense == DENSE_FEATURES, "model.dense_features", dense, "13 to train on Criteo rows")
            require(tables == SPARSE_FEATURES, "embedding.rows", f"{tables} tables", "26 for Criteo rows")
        else:
            require(
                self.train.epochs == 0, "train.epochs", self.train.epochs, "0 for synthetic samples, which never end"
            )
            self.synthetic.of_tables(len(self.embedding.rows))
