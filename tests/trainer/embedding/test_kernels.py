"""Tests of both kernels against each other, and of the choice between them."""

import sys
from pathlib import Path

import pytest
import torch
from torch import Tensor

from trainer.embedding import Bags, EmbeddingConfig
from trainer.embedding import torch_kernel as torch_kernels
from trainer.embedding.fbgemm_kernel import FbgemmKernel
from trainer.embedding.kernel import Kernel, choose, open_kernel
from trainer.embedding.torch_kernel import TorchKernel
from trainer.errors import ConfigError
from trainer.optimizers import RULES, OptimizerConfig

ROWS, DIM, STEPS = 60, 8, 20
CPU, GPU = torch.device("cpu"), torch.device("cuda", 0)
# A row merges at most 20 gradients in float32, which each kernel may sum in its own order: 20 rounding errors of 2^-24
# of sums of about 5, that is 6e-6. An update is no larger, and the errors of 20 steps add up like a random walk.
TOLERANCE = {"rtol": 2e-5, "atol": 2e-5}


def kernel(name: str, rule: str = "rowwise_adagrad", rows: int = ROWS) -> Kernel:
    config = EmbeddingConfig(rows=(ROWS,), dim=DIM, kernel=name)
    opened = open_kernel(config, OptimizerConfig(embedding=rule), rows, torch.float32, CPU)
    opened.weight.copy_(torch.linspace(-1, 1, opened.weight.numel()).view_as(opened.weight))
    return opened


def bags_of(*rows: list[int]) -> Bags:
    flat = torch.tensor([row for bag in rows for row in bag], dtype=torch.int32)
    return Bags(flat, torch.tensor([len(bag) for bag in rows], dtype=torch.int32))


def random_bags(generator: torch.Generator, num_bags: int = 50) -> tuple[Bags, Tensor]:
    """Return bags of 0 to 4 rows, many of which repeat, and the gradients of their sums."""
    lengths = torch.randint(0, 5, (num_bags,), generator=generator, dtype=torch.int32)
    rows = torch.randint(0, ROWS, (int(lengths.sum()),), generator=generator).to(torch.int32) // 2 * 2
    return Bags(rows, lengths), torch.randn(num_bags, DIM, generator=generator)


def assert_same(first: Kernel, second: Kernel) -> None:
    torch.testing.assert_close(first.weight, second.weight, **TOLERANCE)
    torch.testing.assert_close(first.state, second.state, **TOLERANCE)


@pytest.mark.parametrize("rule", RULES)
def test_both_kernels_look_up_and_update_the_same(rule: str) -> None:
    ours, theirs, generator = kernel("torch", rule), kernel("fbgemm", rule), torch.Generator().manual_seed(1)
    before = ours.weight.clone()
    for step in range(STEPS):
        bags, gradient = random_bags(generator)
        torch.testing.assert_close(ours.lookup(bags), theirs.lookup(bags), **TOLERANCE)
        rate = 0.1 * min(step + 1, 10) / 10  # a warm-up, then a constant rate
        ours.update(bags, gradient, rate)
        theirs.update(bags, gradient, rate)
    assert_same(ours, theirs)
    assert torch.equal(theirs.weight[1::2], before[1::2])  # rows that were never looked up
    assert (theirs.weight[::2] != before[::2]).any(dim=1).all()


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("rows", [[[3, 3, 3]], [[3], [3], [5, 3]], [[], [3], []], [[3, 5], []]])
def test_both_kernels_merge_repeated_rows(rows: list[list[int]], rule: str) -> None:
    ours, theirs, bags = kernel("torch", rule), kernel("fbgemm", rule), bags_of(*rows)
    for opened in (ours, theirs):
        sums = opened.lookup(bags)
        opened.update(bags, sums + 1, 0.5)
    assert_same(ours, theirs)
    if rule == "rowwise_adagrad":
        assert ours.state.nonzero().flatten().tolist() == sorted({row for bag in rows for row in bag})


@pytest.mark.parametrize("name", ["torch", "fbgemm"])
@pytest.mark.parametrize("rows", [[], [[], [], []]])
def test_without_lookups_nothing_changes(rows: list[list[int]], name: str) -> None:
    opened, bags = kernel(name), bags_of(*rows)
    before = opened.weight.clone()
    assert torch.equal(opened.lookup(bags), torch.zeros(len(rows), DIM))
    opened.update(bags, torch.ones(len(rows), DIM), 0.1)
    assert torch.equal(opened.weight, before)
    assert not opened.state.any()


@pytest.mark.parametrize("name", ["torch", "fbgemm"])
def test_a_rank_without_rows_computes_nothing(name: str) -> None:
    empty = kernel(name, rows=0)
    assert empty.lookup(bags_of()).shape == (0, DIM)
    empty.update(bags_of(), torch.empty(0, DIM), 0.1)


@pytest.mark.parametrize("name", ["torch", "fbgemm"])
def test_a_row_that_does_not_exist_is_refused(name: str) -> None:
    with pytest.raises(RuntimeError):
        kernel(name).lookup(bags_of([ROWS]))


@pytest.mark.parametrize("name", ["torch", "fbgemm"])
def test_weight_and_state_are_written_in_place(name: str) -> None:
    expected, restored, generator = kernel(name), kernel(name), torch.Generator().manual_seed(2)
    for opened, steps in ((expected, 4), (restored, 2)):
        generator.manual_seed(2)
        for _ in range(steps):
            bags, gradient = random_bags(generator)
            opened.lookup(bags)
            opened.update(bags, gradient, 0.1)
    saved = restored.weight.clone(), restored.state.clone()
    restored.lookup(bags)
    restored.update(bags, gradient, 0.3)  # changes weight and state after the save
    restored.weight.copy_(saved[0])
    restored.state.copy_(saved[1])
    for _ in range(2):
        bags, gradient = random_bags(generator)
        restored.lookup(bags)
        restored.update(bags, gradient, 0.1)
    assert torch.equal(restored.weight, expected.weight)
    assert torch.equal(restored.state, expected.state)


@pytest.mark.parametrize("name", ["torch", "fbgemm"])
def test_a_lookup_without_update_changes_nothing(name: str) -> None:
    first, second = kernel(name), kernel(name)
    bags, gradient = random_bags(torch.Generator().manual_seed(3))
    for opened in (first, second):
        opened.lookup(bags)
        opened.update(bags, gradient, 0.1)
    with torch.no_grad():
        assert not first.lookup(bags_of([1], [2])).requires_grad
    for opened in (first, second):
        assert not opened.lookup(bags).requires_grad
        opened.update(bags, gradient, 0.1)
    assert torch.equal(first.weight, second.weight)


def test_pieces_change_no_bit(monkeypatch: pytest.MonkeyPatch) -> None:
    bags, gradient = random_bags(torch.Generator().manual_seed(4))
    whole = kernel("torch")
    whole.update(bags, gradient, 0.1)
    num_rows = len(bags.rows.unique())
    for rows_of_a_piece in (1, 7, num_rows - 1, num_rows):
        monkeypatch.setitem(torch_kernels._PIECE_BYTES, "cpu", rows_of_a_piece * DIM * 4)
        pieces = kernel("torch")
        pieces.update(bags, gradient, 0.1)
        assert torch.equal(pieces.weight, whole.weight)
        assert torch.equal(pieces.state, whole.state)


def test_merging_keeps_the_order_of_the_global_batch() -> None:
    """Check the order of a sum: 2^24 + 1 - 2^24 is 0 in float32, and 1 in another order."""
    opened = kernel("torch", "sgd")
    before = opened.weight.clone()
    gradient = torch.tensor([2.0**24, 1.0, -(2.0**24)])[:, None].expand(3, DIM).contiguous()
    opened.update(bags_of([4], [4], [4]), gradient, 1.0)
    assert torch.equal(opened.weight, before)


def test_on_a_cpu_fbgemm_is_used_only_if_configured() -> None:
    assert type(kernel("auto")) is TorchKernel
    assert type(kernel("torch")) is TorchKernel
    assert type(kernel("fbgemm")) is FbgemmKernel


def config(name: str, dim: int = DIM) -> EmbeddingConfig:
    return EmbeddingConfig(rows=(ROWS,), dim=dim, kernel=name)


@pytest.mark.parametrize(
    ("dim", "dtype", "reason"), [(6, torch.float32, "multiple of 4"), (8, torch.float64, "float64")]
)
def test_what_fbgemm_cannot_compute(
    dim: int, dtype: torch.dtype, reason: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(
        ConfigError, match=rf"^cannot use embedding\.kernel fbgemm: .*{reason}.* --set embedding\.kernel=torch$"
    ):
        choose(config("fbgemm", dim), dtype, CPU)
    assert choose(config("auto", dim), dtype, GPU) == "torch"
    assert capsys.readouterr().err == ""  # auto prints nothing


def hide(monkeypatch: pytest.MonkeyPatch) -> None:
    """Unload FBGEMM so that it is imported again; monkeypatch restores the loaded modules."""
    for name in list(sys.modules):
        if name.split(".")[0] == "fbgemm_gpu" or name == "trainer.embedding.fbgemm_kernel":
            monkeypatch.delitem(sys.modules, name)


@pytest.fixture
def broken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Install a package that looks like an FBGEMM for another torch."""
    package = tmp_path / "fbgemm_gpu"
    package.mkdir()
    (package / "__init__.py").write_text(
        "import logging\nlogging.error('a page\\nabout it')\nraise OSError('undefined symbol: _ZN3c10\\nand so on')\n"
    )
    hide(monkeypatch)
    monkeypatch.syspath_prepend(tmp_path)


@pytest.mark.usefixtures("broken")
def test_a_broken_install_is_one_line_if_it_is_configured(
    capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    with pytest.raises(ConfigError) as raised:
        choose(config("fbgemm"), torch.float32, CPU)
    assert str(raised.value) == (
        f"cannot use embedding.kernel fbgemm: the installed fbgemm-gpu-cpu does not fit torch {torch.__version__} "
        "(undefined symbol: _ZN3c10). Change it with --set embedding.kernel=torch"
    )
    assert capfd.readouterr().err == ""
    assert caplog.text == ""


@pytest.mark.usefixtures("broken")
def test_auto_ignores_a_broken_install_with_one_line_per_host(capfd: pytest.CaptureFixture[str]) -> None:
    for rank in (0, 1):
        assert choose(config("auto"), torch.float32, torch.device("cuda", rank)) == "torch"
    (line,) = capfd.readouterr().err.splitlines()
    assert line.startswith(
        "trainer: torch computes on the tables instead of FBGEMM: the installed fbgemm-gpu does not fit torch"
    )
    assert "undefined symbol" in line


def test_an_install_with_wrong_updates_is_broken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(FbgemmKernel, "update", lambda self, bags, gradient, learning_rate: None)
    with pytest.raises(ConfigError, match="its updates are wrong"):
        choose(config("fbgemm"), torch.float32, CPU)


def test_no_install_is_quiet_in_auto(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert choose(config("auto"), torch.float32, GPU) == "torch"
    assert capsys.readouterr().err == ""
    with pytest.raises(ConfigError, match="fbgemm-gpu-cpu is not installed"):
        choose(config("fbgemm"), torch.float32, CPU)
