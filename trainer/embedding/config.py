"""Which embedding tables there are, and what computes on them."""

from dataclasses import dataclass

from trainer.errors import require

KERNELS = ("auto", "torch", "fbgemm")


@dataclass(frozen=True)
class EmbeddingConfig:
    rows: tuple[int, ...]  # of each table, one table per sparse feature
    dim: int = 16  # columns, the same for all: the interaction multiplies them with each other
    kernel: str = "auto"  # auto: fbgemm on GPUs where it is installed, else torch

    def __post_init__(self) -> None:
        require(len(self.rows) > 0, "embedding.rows", self.rows, "at least one table")
        require(min(self.rows) > 0, "embedding.rows", self.rows, "1 or more for each table")
        require(max(self.rows) < 2**31, "embedding.rows", max(self.rows), "below 2^31, for ids travel in 32 bits")
        require(self.dim > 0, "embedding.dim", self.dim, "1 or more")
        require(self.kernel in KERNELS, "embedding.kernel", self.kernel, " or ".join(KERNELS))
