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
        embedding, tier, criteo, checkpoint = self.embedding, self.embedding.tier, self.criteo, self.checkpoint
        must = "auto or none if checkpoint.folder is empty"
        has_step = checkpoint.resume.isdecimal()
        require(bool(checkpoint.folder) or not has_step, "checkpoint.resume", checkpoint.resume, must)
        must = "above 0 if embedding.tier.folder is set"
        require(not tier.folder or embedding.memory > 0, "embedding.memory", embedding.memory, must)
        for key, value in (("embedding.tier.folder", tier.folder), ("embedding.dtype", embedding.dtype)):
            must = f"auto or torch if {key} is set"
            require(not value or embedding.kernel != "fbgemm", "embedding.kernel", embedding.kernel, must)
        is_plain, has_key = tier.folder and not tier.folder_is_encrypted, criteo.key_file or checkpoint.key_file
        must = "empty if data or checkpoints are encrypted, unless embedding.tier.folder_is_encrypted"
        require(not (is_plain and has_key), "embedding.tier.folder", tier.folder, must)
        if criteo.file:
            dense, tables = self.model.dense_features, len(embedding.rows)
            require(dense == DENSE_FEATURES, "model.dense_features", dense, "13 to train on Criteo rows")
            require(tables == SPARSE_FEATURES, "embedding.rows", f"{tables} tables", "26 for Criteo rows")
        else:
            epochs = self.train.epochs
            require(epochs == 0, "train.epochs", epochs, "0 for synthetic samples, which never end")
            self.synthetic.of_tables(len(embedding.rows))
