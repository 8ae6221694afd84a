"""Tests of the choice of the faster kernel: it is measured, recorded in checkpoints, and stays when a run resumes."""

import json

import pytest

from trainer.scale import fastest_kernel
from trainer.scale.checkpoint.writer import NUMBERS

KERNEL_CLASSES = {"torch": "TorchKernel", "fbgemm": "FbgemmKernel"}


@pytest.fixture
def run_of(small_run):
    """Return a function that opens a run of one rank whose kernel is the fastest one."""
    fastest = {"embedding": {"dim": 8, "kernel": "fastest"}, "sharding": {"kind": "table_wise"}}
    return lambda *changes: small_run({"train": {"steps": 4}}, fastest, *changes)


@pytest.fixture
def measures(monkeypatch):
    """Return a function that sets the seconds that a measurement of each kernel returns."""
    return lambda torch, fbgemm: monkeypatch.setattr(
        fastest_kernel, "_seconds", lambda *_: {"torch": torch, "fbgemm": fbgemm}
    )


def kernel_of(run):
    """Return the name of the class of all kernels of a run."""
    (kernel,) = {type(kernel).__name__ for _, kernel, _ in run.trainer.tables.locate()}
    return kernel


@pytest.mark.parametrize(("seconds", "chosen"), [((0.002, 0.001), "fbgemm"), ((0.001, 0.002), "torch")])
def test_all_tables_use_the_faster_kernel(run_of, measures, capsys, seconds, chosen):
    measures(*seconds)
    run = run_of()
    assert (run.config.embedding.kernel, kernel_of(run)) == (chosen, KERNEL_CLASSES[chosen])
    torch_ms, fbgemm_ms = (kernel_seconds * 1e3 for kernel_seconds in seconds)
    line = f"for the tables of rank 0 torch takes {torch_ms:.2f} ms and fbgemm takes {fbgemm_ms:.2f} ms"
    assert f"embedding.kernel: {chosen}, because {line}" in capsys.readouterr().out


@pytest.mark.parametrize("kind", ["table_wise", "row_wise", "column_wise"])
def test_kernels_are_measured_and_train(run_of, kind):
    run = run_of({"sharding": {"kind": kind}, "optimizer": {"column_moments": "separate"}})
    assert kernel_of(run) == KERNEL_CLASSES[run.config.embedding.kernel]
    run.train()


@pytest.mark.parametrize("resume", ["auto", "4", "00000004"])
def test_resumed_run_has_the_kernel_that_its_checkpoint_was_computed_with(run_of, measures, tmp_path, capsys, resume):
    measures(0.002, 0.001)
    checkpoint = {"checkpoint": {"folder": str(tmp_path), "every": 1000}}
    run_of(checkpoint).train()
    (numbers,) = tmp_path.glob(f"*/{NUMBERS}")
    assert json.loads(numbers.read_text())["fbgemm"] == 1.0
    measures(0.001, 0.002)
    resumed = run_of({"checkpoint": {"folder": str(tmp_path), "resume": resume}})
    assert kernel_of(resumed) == "FbgemmKernel"
    assert "was computed with it" in capsys.readouterr().out
    afresh = run_of({"checkpoint": {"folder": str(tmp_path / "other")}})
    assert kernel_of(afresh) == "TorchKernel"


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"train": {"dtype": "float64"}}, "it updates in float32 and not in float64"),
        ({"embedding": {"dtype": "float16"}}, "rows on a disk or in half precision need it"),
        ({"embedding": {"dim": 6}}, "it needs the columns of a shard to be a multiple of 4, which 6 is not"),
        ({"sharding": {"kind": "column_wise"}}, "rank 0 has no tables that FBGEMM could compute on"),
        ({"sharding": {"kind": "data_parallel"}}, "rank 0 has no tables that FBGEMM could compute on"),
    ],
)
def test_torch_computes_where_fbgemm_cannot(run_of, capsys, changes, reason):
    assert run_of(changes).config.embedding.kernel == "torch"
    assert f"embedding.kernel: torch, because {reason}" in capsys.readouterr().out


def test_choice_of_an_explicit_kernel_is_not_changed(run_of, monkeypatch):
    monkeypatch.setattr(fastest_kernel, "_measure", lambda *_: pytest.fail("it was measured"))
    assert kernel_of(run_of({"embedding": {"kernel": "torch"}})) == "TorchKernel"
