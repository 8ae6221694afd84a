"""The configuration of the dense layers: their widths and the kind of interaction."""

from dataclasses import dataclass

from trainer.errors import require

INTERACTIONS = ("dot", "cross")


@dataclass(frozen=True)
class ModelConfig:
    dense_features: int = 13  # dense features of a sample; Criteo has 13
    bottom: tuple[int, ...] = (64, 32)  # hidden widths; the bottom MLP ends in the largest embedding dimension
    top: tuple[int, ...] = (128, 64)  # hidden widths; the top MLP ends in one logit
    interaction: str = "dot"  # dot, or cross: the low-rank cross network of DLRM-DCNv2
    cross_layers: int = 3  # layers of the cross network
    cross_rank: int = 16  # rank of a cross layer's matrix, which is the product of two thin matrices

    def __post_init__(self) -> None:
        require(self.dense_features > 0, "model.dense_features", self.dense_features, "1 or more")
        for key, widths in (("model.bottom", self.bottom), ("model.top", self.top)):
            require(all(width > 0 for width in widths), key, widths, "1 or more for each layer")
        require(self.interaction in INTERACTIONS, "model.interaction", self.interaction, " or ".join(INTERACTIONS))
        require(self.cross_layers > 0, "model.cross_layers", self.cross_layers, "1 or more")
        require(self.cross_rank > 0, "model.cross_rank", self.cross_rank, "1 or more")
