"""Tests with real ranks: tables on a disk train as tables in memory do, to the bit, however they are divided."""

import json
from pathlib import Path

import pytest
import torch

from tests.trainer.conftest import SMALL

pytestmark = pytest.mark.e2e

STEPS = 50
ROWS, DIM = [40, 700, 300, 5, 900], 32
KINDS = {
    **{kind: kind for kind in ("table_wise", "row_wise", "column_wise", "table_row_wise")},
    "all kinds": "column_wise,table_row_wise,row_wise,data_parallel,table_wise",
}
OPTIMIZERS = {
    "sgd": {"embedding": "sgd"},
    "shared moments": {"embedding": "rowwise_adagrad", "column_moments": "shared"},
    "separate moments": {"embedding": "rowwise_adagrad", "column_moments": "separate"},
    "element-wise": {"embedding": "adagrad"},
    "bfloat16": {"embedding": "rowwise_adagrad"},
}
CASES = [f"{kind}, {optimizer}" for kind in KINDS for optimizer in OPTIMIZERS]


def variant(name: str, memory: int, out: Path) -> list:
    """Return the changes of a case. `memory` is bytes for its rows, 0: all rows are in memory.

    The plan of the rows in memory is saved, and used for the rows on a disk as well.
    """
    kind, optimizer = name.split(", ")
    dtype = "bfloat16" if optimizer == "bfloat16" else ""
    embedding = {
        "dtype": dtype,
        "rows": ROWS,
        "dim": DIM,
        "memory": memory,
        "tier": {"folder": str(out / "rows") if memory else ""},
    }
    sharding = {"kind": KINDS[kind], "plan" if memory else "save": str(out / f"{name}.yaml")}
    return [SMALL, {"embedding": embedding, "sharding": sharding, "optimizer": OPTIMIZERS[optimizer]}]


@pytest.fixture(scope="module")
def results_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of all results, so that the ranks start once for all cases."""
    return tmp_path_factory.mktemp("tier")


@pytest.fixture
def results(start, results_folder: Path):
    """Return a function that trains a case with rows in memory and with rows on a disk, and returns both results."""

    def run(ranks: int, name: str) -> tuple[list[dict], list[dict]]:
        out = results_folder / str(ranks)
        if not out.exists():
            out.mkdir()
            memory = sum(ROWS) * (DIM + 1) * 4 // ranks // 4  # a fourth of the rows of a rank, and less with its index
            variants = {
                f"{case}, {place}": variant(case, limit, out)
                for case in CASES
                for place, limit in (("memory", 0), ("disk", memory))
            }
            script = str(Path(__file__).parents[2] / "train_and_save.py")
            ended = start(ranks, script, str(STEPS), str(out), json.dumps(variants), seconds=400)
            assert ended.returncode == 0, ended.stderr
        in_memory, on_disk = (
            [torch.load(out / f"{name}, {place}-{rank}.pt") for rank in range(ranks)] for place in ("memory", "disk")
        )
        return in_memory, on_disk

    return run


@pytest.mark.slow  # tests of the kernel train without ranks
@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("ranks", [1, 2, 4])
def test_tables_on_a_disk_train_bit_equal_to_tables_in_memory(results, ranks: int, name: str) -> None:
    for in_memory, on_disk in zip(*results(ranks, name), strict=True):
        assert in_memory["losses"] == on_disk["losses"]
        for tensor, parts in in_memory["tensors"].items():
            for (first, expected, *_), (other, actual, *_) in zip(parts, on_disk["tensors"][tensor], strict=True):
                assert first == other
                assert torch.equal(expected, actual), tensor
