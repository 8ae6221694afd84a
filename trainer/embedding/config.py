"""The configuration of the embedding tables: rows, columns and kernel."""

from dataclasses import dataclass

from trainer.errors import require

KERNELS = ("auto", "torch", "fbgemm")


@dataclass(frozen=True)
class EmbeddingConfig:
    rows: tuple[int, ...]  # rows of each table; one table per sparse feature
    dim: int | tuple[int, ...] = 16  # columns of every table, or of each; model.interaction dot needs equal ones
    kernel: str = "auto"  # torch, fbgemm, or auto: fbgemm on GPUs if it is installed, torch otherwise

    def __post_init__(self) -> None:
        require(len(self.rows) > 0, "embedding.rows", self.rows, "at least one table")
        require(min(self.rows) > 0, "embedding.rows", self.rows, "1 or more for each table")
        require(max(self.rows) < 2**31, "embedding.rows", max(self.rows), "below 2^31: ids are sent in 32 bits")
        fits = isinstance(self.dim, int) or len(self.dim) == len(self.rows)
        require(fits, "embedding.dim", self.dim, f"one number, or a list of {len(self.rows)}, one for each table")
        require(min(self.dims) > 0, "embedding.dim", self.dim, "1 or more")
        require(self.kernel in KERNELS, "embedding.kernel", self.kernel, " or ".join(KERNELS))

    @property
    def dims(self) -> tuple[int, ...]:
        """The columns of each table."""
        return (self.dim,) * len(self.rows) if isinstance(self.dim, int) else self.dim
