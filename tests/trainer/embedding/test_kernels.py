"""Both kernels against each other, and which one is chosen."""

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
# A row is merged from 20 gradients in float32 at most, which each kernel may sum in its own order: 20 roundings of
# 2^-24 of sums that are about 5, that is 6e-6; an update is no larger, and those of 20 steps add up as a random walk.
TOLERANCE = {"rtol": 2e-5, "atol": 2e-5}


def kernel(name: str, rule: str = "rowwise_adagrad", rows: int = ROWS) -> Kernel:
    config = EmbeddingConfig(rows=(ROWS,), dim=DIM, kernel=name)
    opened = open_kernel(config, OptimizerConfig(embedding=rule), rows, torch.float32, CPU)
    opened.weight.copy_(torch.linspace(-1, 1, opened.weight.numel()).view_as(opened.weight))
    return opened


def bags_of(*rows: list[int]) -> Bags:
    flat = torch.tensor([row for bag in rows for row in bag], dtype=torch.int32)
    return Bags(flat, torch.tensor([len(bag) for bag in rows], dtype=torch.int32))


def some(generator: torch.Generator, num_bags: int = 50) -> tuple[Bags, Tensor]:
    """Bags of 0 to 4 rows, many of them more than once, and the gradients of their sums."""
    lengths = torch.randint(0, 5, (num_bags,), generator=generator, dtype=torch.int32)
    rows = torch.randint(0, ROWS, (int(lengths.sum()),), generator=generator).to(torch.int32) // 2 * 2
    return Bags(rows, lengths), torch.randn(num_bags, DIM, generator=generator)


def assert_same(one: Kernel, other: Kernel) -> None:
    torch.testing.assert_close(one.weight, other.weight, **TOLERANCE)
    torch.testing.assert_close(one.state, other.state, **TOLERANCE)


@pytest.mark.parametrize("rule", RULES)
def test_both_look_up_and_learn_the_same(rule: str) -> None:
    ours, theirs, generator = kernel("torch", rule), kernel("fbgemm", rule), torch.Generator().manual_seed(1)
    before = ours.weight.clone()
    for step in range(STEPS):
        bags, gradient = some(generator)
        torch.testing.assert_close(ours.lookup(bags), theirs.lookup(bags), **TOLERANCE)
        rate = 0.1 * min(step + 1, 10) / 10  # a warm-up, then always the same
        ours.update(bags, gradient, rate)
        theirs.update(bags, gradient, rate)
    assert_same(ours, theirs)
    assert torch.equal(theirs.weight[1::2], before[1::2])  # that nobody looked up
    assert (theirs.weight[::2] != before[::2]).any(dim=1).all()


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("rows", [[[3, 3, 3]], [[3], [3], [5, 3]], [[], [3], []], [[3, 5], []]])
def test_both_merge_what_stands_twice(rows: list[list[int]], rule: str) -> None:
    ours, theirs, bags = kernel("torch", rule), kernel("fbgemm", rule), bags_of(*rows)
    for each in (ours, theirs):
        looked_up = each.lookup(bags)
        each.update(bags, looked_up + 1, 0.5)
    assert_same(ours, theirs)
    if rule == "rowwise_adagrad":
        assert ours.state.nonzero().flatten().tolist() == sorted({row for bag in rows for row in bag})


@pytest.mark.parametrize("name", ["torch", "fbgemm"])
@pytest.mark.parametrize("rows", [[], [[], [], []]])
def test_nothing_looked_up_is_nothing_learned(rows: list[list[int]], name: str) -> None:
    one, bags = kernel(name), bags_of(*rows)
    before = one.weight.clone()
    assert torch.equal(one.lookup(bags), torch.zeros(len(rows), DIM))
    one.update(bags, torch.ones(len(rows), DIM), 0.1)
    assert torch.equal(one.weight, before)
    assert not one.state.any()


@pytest.mark.parametrize("name", ["torch", "fbgemm"])
def test_a_rank_without_rows_computes_nothing(name: str) -> None:
    one = kernel(name, rows=0)
    assert one.lookup(bags_of()).shape == (0, DIM)
    one.update(bags_of(), torch.empty(0, DIM), 0.1)


@pytest.mark.parametrize("name", ["torch", "fbgemm"])
def test_a_row_that_does_not_exist_is_refused(name: str) -> None:
    with pytest.raises(RuntimeError):
        kernel(name).lookup(bags_of([ROWS]))


@pytest.mark.parametrize("name", ["torch", "fbgemm"])
def test_weight_and_state_are_written_in_place(name: str) -> None:
    one, other, generator = kernel(name), kernel(name), torch.Generator().manual_seed(2)
    for each, steps in ((one, 4), (other, 2)):
        generator.manual_seed(2)
        for _ in range(steps):
            bags, gradient = some(generator)
            each.lookup(bags)
            each.update(bags, gradient, 0.1)
    kept = other.weight.clone(), other.state.clone()
    other.lookup(bags)
    other.update(bags, gradient, 0.3)  # other than kept
    other.weight.copy_(kept[0])
    other.state.copy_(kept[1])
    for _ in range(2):
        bags, gradient = some(generator)
        other.lookup(bags)
        other.update(bags, gradient, 0.1)
    assert torch.equal(other.weight, one.weight)
    assert torch.equal(other.state, one.state)


@pytest.mark.parametrize("name", ["torch", "fbgemm"])
def test_a_look_without_learning_changes_no_update(name: str) -> None:
    one, other = kernel(name), kernel(name)
    bags, gradient = some(torch.Generator().manual_seed(3))
    for each in (one, other):
        each.lookup(bags)
        each.update(bags, gradient, 0.1)
    with torch.no_grad():
        assert not one.lookup(bags_of([1], [2])).requires_grad
    for each in (one, other):
        assert not each.lookup(bags).requires_grad
        each.update(bags, gradient, 0.1)
    assert torch.equal(one.weight, other.weight)


def test_pieces_change_no_bit(monkeypatch: pytest.MonkeyPatch) -> None:
    bags, gradient = some(torch.Generator().manual_seed(4))
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
    """2^24 + 1 - 2^24 is 0 in float32, and 1 in another order."""
    one = kernel("torch", "sgd")
    before = one.weight.clone()
    gradient = torch.tensor([2.0**24, 1.0, -(2.0**24)])[:, None].expand(3, DIM).contiguous()
    one.update(bags_of([4], [4], [4]), gradient, 1.0)
    assert torch.equal(one.weight, before)


def test_fbgemm_only_where_it_is_asked_for_on_a_processor() -> None:
    assert type(kernel("auto")) is TorchKernel
    assert type(kernel("torch")) is TorchKernel
    assert type(kernel("fbgemm")) is FbgemmKernel


def config(name: str, dim: int = DIM) -> EmbeddingConfig:
    return EmbeddingConfig(rows=(ROWS,), dim=dim, kernel=name)


@pytest.mark.parametrize(("dim", "dtype", "why"), [(6, torch.float32, "multiple of 4"), (8, torch.float64, "float64")])
def test_what_fbgemm_cannot_compute(dim: int, dtype: torch.dtype, why: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(
        ConfigError, match=rf"^cannot use embedding\.kernel fbgemm: .*{why}.* --set embedding\.kernel=torch$"
    ):
        choose(config("fbgemm", dim), dtype, CPU)
    assert choose(config("auto", dim), dtype, GPU) == "torch"
    assert capsys.readouterr().err == ""  # nobody asked for it


def hide(monkeypatch: pytest.MonkeyPatch) -> None:
    """Imported afresh next time; monkeypatch brings back what was loaded."""
    for name in list(sys.modules):
        if name.split(".")[0] == "fbgemm_gpu" or name == "trainer.embedding.fbgemm_kernel":
            monkeypatch.delitem(sys.modules, name)


@pytest.fixture
def broken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An install that another torch is needed for."""
    package = tmp_path / "fbgemm_gpu"
    package.mkdir()
    (package / "__init__.py").write_text(
        "import logging\nlogging.error('a page\\nabout it')\nraise OSError('undefined symbol: _ZN3c10\\nand so on')\n"
    )
    hide(monkeypatch)
    monkeypatch.syspath_prepend(tmp_path)


@pytest.mark.usefixtures("broken")
def test_a_broken_install_is_one_line_where_it_is_asked_for(
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
def test_auto_goes_on_without_a_broken_install_and_says_so_once_a_host(capfd: pytest.CaptureFixture[str]) -> None:
    for rank in (0, 1):
        assert choose(config("auto"), torch.float32, torch.device("cuda", rank)) == "torch"
    (line,) = capfd.readouterr().err.splitlines()
    assert line.startswith(
        "trainer: torch computes on the tables instead of FBGEMM: the installed fbgemm-gpu does not fit torch"
    )
    assert "undefined symbol" in line


def test_an_install_that_learns_otherwise_is_broken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(FbgemmKernel, "update", lambda self, bags, gradient, learning_rate: None)
    with pytest.raises(ConfigError, match="its updates are wrong"):
        choose(config("fbgemm"), torch.float32, CPU)


def test_no_install_is_quiet_in_auto(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert choose(config("auto"), torch.float32, GPU) == "torch"
    assert capsys.readouterr().err == ""
    with pytest.raises(ConfigError, match="fbgemm-gpu-cpu is not installed"):
        choose(config("fbgemm"), torch.float32, CPU)
