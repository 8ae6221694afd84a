"""Tests of runs that end with an error, with real ranks. The ranks end, and print a single error line."""

from pathlib import Path

import pytest

from tests.trainer import wrong_id
from tests.trainer.build import criteo_row
from tests.trainer.conftest import TRAINER

pytestmark = pytest.mark.e2e

FOLDER = Path(__file__).parent
SMALL = ("embedding.rows=[40, 7, 90]", "embedding.dim=4", "train.global_batch=32")
ONE_ID = ("synthetic.shortest_bag=1", "synthetic.longest_bag=1")  # in each bag


def options(*keys: str) -> list[str]:
    """Return the options that set the keys of a small run, and these."""
    return [word for key in (*SMALL, *keys) for word in ("--set", key)]


@pytest.fixture
def error_line_of(start):
    """Return a function that runs ranks that fail, given a script and keys, and returns their error line."""

    def run(script: str, *keys: str, arguments: tuple[str, ...] = (), ranks: int = 2) -> str:
        ended = start(ranks, script, *arguments, *options(*keys))
        assert ended.returncode != 0
        errors = {line for line in ended.stderr.splitlines() if line.startswith("trainer: ")}
        assert len(errors) == 1, ended.stderr
        assert "Traceback" not in ended.stderr
        return errors.pop()

    return run


def test_nan_loss_ends_run_with_next_step(error_line_of) -> None:
    error = error_line_of(TRAINER, "optimizer.dense_learning_rate=1e38")
    assert "the loss of step" in error
    assert "Check the data, or resume from a checkpoint with a lower optimizer.dense_learning_rate" in error


@pytest.mark.parametrize("rank", [0, 1])
def test_id_that_is_no_row_of_its_table_ends_all_ranks_with_one_line(error_line_of, rank, tmp_path) -> None:
    saved = (f"checkpoint.folder={tmp_path / 'kept'}", "checkpoint.every=4")
    error = error_line_of(str(FOLDER / "wrong_id.py"), *ONE_ID, *saved, arguments=(str(rank),))
    sample = 16 * rank + wrong_id.SAMPLE  # each of the two ranks has 16 of the 32 samples of a step
    assert error == (
        f"trainer: step 4 has id 7 of table 1 in sample {sample}: the table has rows 0 to 6. "
        "Correct the source of the ids, or raise embedding.rows"
    )
    assert not list((tmp_path / "kept").glob("step-*"))  # nothing that was trained without these samples is saved


def test_save_in_progress_is_completed_before_wrong_id_ends_run(error_line_of, tmp_path) -> None:
    large = ("embedding.rows=[40, 7, 600000]", "embedding.dim=64")
    saved = (f"checkpoint.folder={tmp_path / 'kept'}", "checkpoint.every=3")
    error = error_line_of(str(FOLDER / "wrong_id.py"), *ONE_ID, *large, *saved, arguments=("0",))
    assert error.startswith("trainer: step 4 has id 7 of table 1")
    assert [path.name for path in (tmp_path / "kept").iterdir()] == ["step-00000003"]


def test_plan_that_does_not_fit_into_memory_ends_run(error_line_of) -> None:
    assert "sharding.memory_bytes" in error_line_of(TRAINER, "sharding.memory_bytes=1000")


def test_table_row_wise_on_uneven_hosts_ends_all_ranks(error_line_of) -> None:
    error = error_line_of(str(FOLDER / "uneven_hosts.py"), "sharding.kind=table_row_wise", "train.steps=1", ranks=4)
    assert error == (
        "trainer: table_row_wise does not fit 4 ranks: a host has 1 of them, and another one 2. "
        "Start as many ranks on every host, or change sharding.kind"
    )


def test_file_that_another_rank_read_while_it_grew_ends_all_ranks(error_line_of, tmp_path) -> None:
    row = "\t".join(criteo_row()) + "\n"
    for rank, num_rows in enumerate((40, 64)):
        (tmp_path / f"{rank}.tsv").write_text(num_rows * row)
    keys = (f"criteo.file={tmp_path / 'RANK.tsv'}", f"embedding.rows={[5] * 26}", "train.epochs=1")
    assert error_line_of(str(FOLDER / "uneven_rows.py"), *keys) == (
        "trainer: rank 1 has 64 samples, and rank 0 has 40: the data was still being written, or the hosts have "
        "different copies. Give all ranks the same complete data"
    )


def test_plan_that_rank_0_cannot_write_ends_all_ranks(error_line_of) -> None:
    error = error_line_of(TRAINER, "sharding.save=/nowhere/plan.yaml")
    assert error == "trainer: cannot write /nowhere/plan.yaml: No such file or directory. Check the path of the plan"


def test_kernel_without_support_for_tables_of_one_rank_ends_all_ranks(error_line_of) -> None:
    pytest.importorskip("fbgemm_gpu")
    tables = ("embedding.rows=[100, 100]", "embedding.dim=[16, 6]", "sharding.kind=table_wise")
    error = error_line_of(TRAINER, *tables, "model.interaction=cross", "embedding.kernel=fbgemm")
    assert "cannot use embedding.kernel fbgemm: it needs the columns of a shard to be a multiple of 4, which 6" in error


@pytest.mark.slow  # the other endings are in every run
def test_rank_out_of_memory_ends_run_with_next_step(start) -> None:
    large = options("embedding.rows=[2000000, 2000000]", "embedding.dim=64")
    ended = start(2, str(FOLDER / "limited_memory.py"), "200000000", *large)
    assert ended.returncode != 0
    (error,) = (line for line in ended.stderr.splitlines() if line.startswith("trainer: "))  # rank 0 loses its peer
    assert "rank 1 is out of memory" in error
    assert "Start more ranks" in error
