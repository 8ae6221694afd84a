"""Tests with real ranks: several ranks train the same model as a single rank, except for rounding."""

import json
from collections.abc import Iterable
from pathlib import Path

import pytest
import torch

from tests.trainer.conftest import SMALL, assembled

pytestmark = pytest.mark.e2e

STEPS = 50
MIX = "table_wise,row_wise,data_parallel,row_wise,table_wise"
OFF = {"overlap": {"ids": False, "pooled": False, "gradients": False}}


def variant(dtype: str = "float64", **sections) -> list:
    """Return the changes of a small configuration."""
    return [SMALL, {"train": {"dtype": dtype}}, sections]


DIMS = {"embedding": {"dim": [4, 6, 4, 1, 5]}, "model": {"interaction": "cross", "cross_rank": 3}}
ALL_KINDS = "column_wise,table_row_wise,row_wise,data_parallel,table_wise"
OTHER_KINDS = "table_row_wise,column_wise,column_wise,table_wise,table_row_wise"
KINDS_ALONE = ("table_wise", "row_wise", "data_parallel", "column_wise", "table_row_wise")
SHARDINGS = {
    **{kind: variant(sharding={"kind": kind}) for kind in KINDS_ALONE},
    "all kinds": variant(sharding={"kind": ALL_KINDS}),
    "all kinds, nothing overlapped": variant(sharding={"kind": ALL_KINDS}, **OFF),
    "all kinds, several dimensions": variant(sharding={"kind": ALL_KINDS}, **DIMS),
    "other kinds, several dimensions": variant(sharding={"kind": OTHER_KINDS}, **DIMS),
    "other kinds, uneven batch": variant(sharding={"kind": OTHER_KINDS}, train={"global_batch": 31}),
    "other kinds, few samples": variant(sharding={"kind": OTHER_KINDS}, train={"global_batch": 3}),
    "several dimensions, planned": variant(**DIMS),
    "mix": variant(sharding={"kind": MIX}),
    "mix, nothing overlapped": variant(sharding={"kind": MIX}, **OFF),
    "mix, small buckets": variant(sharding={"kind": MIX}, overlap={"bucket_bytes": 64}),
    "planned": variant(),
    "fewer tables than ranks": variant(sharding={"kind": "table_wise"}, embedding={"rows": [40, 7], "dim": 4}),
    "fewer samples than ranks": variant(sharding={"kind": MIX}, train={"global_batch": 3}),
    "uneven batch": variant(train={"global_batch": 31}),
    "cross": variant(sharding={"kind": MIX}, model={"interaction": "cross", "cross_rank": 3}),
}
OPTIMIZERS = {
    f"dense {dense}, tables {tables}": variant(
        sharding={"kind": MIX}, optimizer={"dense": dense, "embedding": tables}, schedule={"warmup_steps": 10}
    )
    for dense in ("sgd", "adagrad", "adam")
    for tables in ("sgd", "rowwise_adagrad")
} | {"tables adagrad": variant(sharding={"kind": ALL_KINDS}, optimizer={"embedding": "adagrad"}, **DIMS)}
FLOAT32 = {"float32": variant("float32", sharding={"kind": MIX}), "again": variant("float32", sharding={"kind": MIX})}
ALL = SHARDINGS | OPTIMIZERS | FLOAT32
TWO_OPTIMIZERS = ("dense adagrad, tables rowwise_adagrad", "dense adam, tables sgd", "tables adagrad")
QUICK_ON_TWO = {*SHARDINGS, *FLOAT32, *TWO_OPTIMIZERS}
QUICK = {  # in `make test`, by number of ranks; the others are marked as slow
    1: QUICK_ON_TWO,
    2: QUICK_ON_TWO,
    4: {
        "mix",
        "planned",
        "fewer tables than ranks",
        "fewer samples than ranks",
        "all kinds, several dimensions",
        "other kinds, several dimensions",
        "other kinds, few samples",
    },
}


def cases(names: Iterable[str], *numbers: int) -> list:
    """Return each number of ranks with each variant."""
    return [
        pytest.param(ranks, name, marks=() if name in QUICK[ranks] else pytest.mark.slow)
        for ranks in numbers
        for name in names
    ]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of all results, so that the ranks start once for many variants."""
    return tmp_path_factory.mktemp("kept")


@pytest.fixture
def train(start, folder: Path):
    """Return a function that trains a variant on `ranks` ranks and returns its losses and tensors.

    The ranks start once for all quick variants and once for the others.
    """

    def run(ranks: int, name: str) -> dict:
        quick = name in QUICK[ranks]
        out = folder / f"{ranks}-{'quick' if quick else 'slow'}"
        if not out.exists():
            out.mkdir()
            script = str(Path(__file__).with_name("train_and_save.py"))
            variants = {key: changes for key, changes in ALL.items() if (key in QUICK[ranks]) == quick}
            ended = start(ranks, script, str(STEPS), str(out), json.dumps(variants), seconds=300)
            assert ended.returncode == 0, ended.stderr
        first, *others = [torch.load(out / f"{name}-{rank}.pt") for rank in range(ranks)]
        assert all(other["losses"] == first["losses"] for other in others)
        tensors = {
            key: assembled([part for result in (first, *others) for part in result["tensors"][key]])
            for key in first["tensors"]
        }
        return {"losses": first["losses"], "tensors": tensors}

    return run


def relative_difference(expected: torch.Tensor, actual: torch.Tensor) -> float:
    """Return the largest difference, relative to the tensor's own scale."""
    expected, actual = expected.double(), actual.double()
    return float((expected - actual).abs().max() / expected.abs().max().clamp(min=1e-300))


@pytest.mark.parametrize(("ranks", "name"), cases([*SHARDINGS, *OPTIMIZERS], 2, 4))
def test_several_ranks_equal_single_rank_in_float64(train, ranks: int, name: str) -> None:
    single, many = train(1, name), train(ranks, name)
    assert sorted(many["tensors"]) == sorted(single["tensors"])
    for tensor, value in single["tensors"].items():
        assert value.shape == many["tensors"][tensor].shape
        assert relative_difference(value, many["tensors"][tensor]) < 1e-10, tensor
    assert many["losses"] == pytest.approx(single["losses"], rel=1e-10)


@pytest.mark.parametrize(("ranks", "name"), cases(["float32"], 2, 4))
def test_losses_of_several_ranks_agree_with_single_rank_in_float32(train, ranks: int, name: str) -> None:
    assert train(ranks, name)["losses"] == pytest.approx(train(1, name)["losses"], rel=1e-4)


@pytest.mark.parametrize(("ranks", "name"), cases(["float32"], 1, 2, 4))
def test_repeated_training_is_bit_identical(train, ranks: int, name: str) -> None:
    first, again = train(ranks, name), train(ranks, "again")
    assert first["losses"] == again["losses"]
    assert all(torch.equal(first["tensors"][tensor], again["tensors"][tensor]) for tensor in first["tensors"])
