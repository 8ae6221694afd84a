"""Make bags, rows of Criteo, and what a run or a folder has, for the trainer's tests."""

from pathlib import Path

import torch
from torch import Tensor

from trainer.kernel import Bags
from trainer.scale.run import Run


def bags_of(*rows: list[int]) -> Bags:
    """Return a bag with each of these lists of rows."""
    flat = torch.tensor([row for bag in rows for row in bag], dtype=torch.int32)
    return Bags(flat, torch.tensor([len(bag) for bag in rows], dtype=torch.int32))


def random_bags(generator: torch.Generator, num_rows: int, dim: int, num_bags: int = 50) -> tuple[Bags, Tensor]:
    """Return bags of 0 to 4 even rows, many of which repeat, and the gradients of their sums."""
    lengths = torch.randint(0, 5, (num_bags,), generator=generator, dtype=torch.int32)
    rows = torch.randint(0, num_rows, (int(lengths.sum()),), generator=generator).to(torch.int32) // 2 * 2
    return Bags(rows, lengths), torch.randn(num_bags, dim, generator=generator)


def criteo_row(label: str = "1", integers: str = "3", category: str = "ff") -> list[str]:
    """Return the cells of a row of Criteo: a label, 13 integers and 26 categories."""
    return [label] + [integers] * 13 + [category] * 26


def tensors(run: Run) -> dict[str, list[Tensor]]:
    """Return copies of the parts of each tensor of a run."""
    return {name: [part.read().clone() for part in rows.parts] for name, rows in run.state().items()}


def assert_equal(expected: dict[str, list[Tensor]], actual: dict[str, list[Tensor]]) -> None:
    """Check that two runs have the same tensors, bit for bit."""
    assert expected.keys() == actual.keys()
    for name, parts in expected.items():
        assert all(torch.equal(*pair) for pair in zip(parts, actual[name], strict=True)), name


def file_names(folder: Path) -> list[str]:
    """Return the sorted names of what a folder has."""
    return sorted(path.name for path in folder.iterdir())
