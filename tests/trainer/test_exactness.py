"""R ranks train the same model as one, to rounding: real processes, real collectives."""

import json
from pathlib import Path

import pytest
import torch

from tests.trainer.conftest import SMALL

STEPS = 50


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("kept")


@pytest.fixture
def train(start, folder: Path):
    """What `ranks` ranks have learned, each number of ranks started once."""

    def run(ranks: int, dtype: str) -> dict:
        out = folder / str(ranks)
        if not out.exists():
            out.mkdir()
            script = str(Path(__file__).with_name("train_and_keep.py"))
            ended = start(ranks if ranks > 1 else 0, script, str(STEPS), str(out), json.dumps(SMALL))
            assert ended.returncode == 0, ended.stderr
        kept = [torch.load(out / f"{dtype}-{rank}.pt") for rank in range(ranks)]
        for other in kept[1:]:
            assert other["losses"] == kept[0]["losses"]
            assert all(torch.equal(other["dense"][name], kept[0]["dense"][name]) for name in other["dense"])
        return kept[0] | {"tables": {table: kept for rank in kept for table, kept in rank["tables"].items()}}

    return run


def relative_difference(one: torch.Tensor, other: torch.Tensor) -> float:
    """Largest difference, relative to the tensor's own scale."""
    return float((one - other).abs().max() / one.abs().max())


@pytest.mark.parametrize("ranks", [2, 4])
def test_ranks_equal_one_rank_in_float64(train, ranks: int) -> None:
    one, many = train(1, "float64"), train(ranks, "float64")
    assert sorted(many["tables"]) == sorted(one["tables"]) == list(range(5))
    for name in one["dense"]:
        assert relative_difference(one["dense"][name], many["dense"][name]) < 1e-10, name
    for table, parts in one["tables"].items():
        for part, other in zip(parts, many["tables"][table], strict=True):
            assert relative_difference(part, other) < 1e-10, table
    assert many["losses"] == pytest.approx(one["losses"], rel=1e-10)


@pytest.mark.parametrize("ranks", [2, 4])
def test_loss_curves_agree_in_float32(train, ranks: int) -> None:
    assert train(ranks, "float32")["losses"] == pytest.approx(train(1, "float32")["losses"], rel=1e-4)


def test_it_really_trained(train) -> None:
    losses = train(1, "float64")["losses"]
    assert sum(losses[-10:]) < 0.95 * sum(losses[:10])
