"""Tests of the torch kernel and the FBGEMM kernel against each other, and of the choice between them."""

import sys
from pathlib import Path

import pytest
import torch

from tests.trainer.build import bags_of, random_bags
from trainer import kernel as torch_kernels
from trainer.errors import ConfigError
from trainer.kernel import Kernel, Precision, TorchKernel
from trainer.optimizers import RULES, OptimizerConfig
from trainer.scale.fbgemm_kernel import FbgemmKernel
from trainer.scale.kernel_choice import choose, open_kernel

ROWS, DIM, STEPS = 60, 8, 20
CPU, GPU = torch.device("cpu"), torch.device("cuda", 0)
# A row merges at most 20 gradients in float32, which each kernel may sum in its own order: 20 rounding errors of 2^-24
# of sums of about 5, that is 6e-6. An update is no larger, and the errors of 20 steps add up like a random walk.
TOLERANCE = {"rtol": 2e-5, "atol": 2e-5}


def kernel(name: str, rule: str = "rowwise_adagrad", rows: int = ROWS) -> Kernel:
    """Return a kernel of one table whose weights are the same for each name."""
    instance = open_kernel(name, OptimizerConfig(embedding=rule), (rows, DIM), Precision(torch.float32), CPU)
    instance.weight.copy_(torch.linspace(-1, 1, instance.weight.numel()).view_as(instance.weight))
    return instance


def assert_same(first: Kernel, second: Kernel) -> None:
    """Check that two kernels have the same weights and states, except for rounding."""
    torch.testing.assert_close(first.weight, second.weight, **TOLERANCE)
    torch.testing.assert_close(first.state, second.state, **TOLERANCE)


@pytest.mark.parametrize("rule", RULES)
def test_torch_and_fbgemm_lookups_and_updates_agree(rule: str) -> None:
    by_torch, by_fbgemm, generator = kernel("torch", rule), kernel("fbgemm", rule), torch.Generator().manual_seed(1)
    before = by_torch.weight.clone()
    for step in range(STEPS):
        bags, gradient = random_bags(generator, ROWS, DIM)
        torch.testing.assert_close(by_torch.lookup(bags), by_fbgemm.lookup(bags), **TOLERANCE)
        rate = 0.1 * min(step + 1, 10) / 10  # a warm-up, then a constant rate
        by_torch.update(bags, gradient, rate)
        by_fbgemm.update(bags, gradient, rate)
    assert_same(by_torch, by_fbgemm)
    assert torch.equal(by_fbgemm.weight[1::2], before[1::2])  # rows that were never looked up
    assert (by_fbgemm.weight[::2] != before[::2]).any(dim=1).all()


@pytest.mark.parametrize(("most", "index_type"), [(ROWS, torch.int32), (ROWS - 1, torch.int64)])
def test_fbgemm_numbers_rows_with_32_bits_as_long_as_they_suffice(monkeypatch, most: int, index_type) -> None:
    monkeypatch.setattr("trainer.scale.fbgemm_kernel.INT32_ROWS", most)
    assert kernel("fbgemm")._fbgemm.embedding_table_index_type == index_type


def test_fbgemm_looks_up_once_while_the_learning_rate_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    by_fbgemm, by_torch, generator = kernel("fbgemm"), kernel("torch"), torch.Generator().manual_seed(2)
    num_lookups, forward = 0, type(by_fbgemm._fbgemm).forward

    def counted_forward(*arguments: object) -> object:
        nonlocal num_lookups
        num_lookups += 1
        return forward(*arguments)

    monkeypatch.setattr(type(by_fbgemm._fbgemm), "forward", counted_forward)
    for step in range(1, 4):
        bags, gradient = random_bags(generator, ROWS, DIM)
        by_fbgemm.begin(step, 0.1 * step)
        by_fbgemm.lookup(bags)
        by_fbgemm.update(bags, gradient, 0.1 * step)
        by_torch.update(bags, gradient, 0.1 * step)
    assert num_lookups == 3
    assert_same(by_torch, by_fbgemm)


@pytest.mark.parametrize("name", ["torch", "fbgemm"])
@pytest.mark.parametrize("num_bags", [0, 3])
@pytest.mark.parametrize("rows", [0, ROWS])
def test_lookup_and_update_of_empty_bags_change_nothing(rows: int, num_bags: int, name: str) -> None:
    instance, bags = kernel(name, rows=rows), bags_of(*[[]] * num_bags)
    before = instance.weight.clone()
    assert torch.equal(instance.lookup(bags), torch.zeros(num_bags, DIM))
    instance.update(bags, torch.ones(num_bags, DIM), 0.1)
    assert torch.equal(instance.weight, before)
    assert not instance.state.any()


@pytest.mark.parametrize("name", ["torch", "fbgemm"])
def test_lookup_of_missing_row_is_refused(name: str) -> None:
    with pytest.raises(RuntimeError):
        kernel(name).lookup(bags_of([ROWS]))


@pytest.mark.parametrize("name", ["torch", "fbgemm"])
def test_weight_and_state_can_be_restored_in_place(name: str) -> None:
    expected, restored, generator = kernel(name), kernel(name), torch.Generator().manual_seed(2)
    for instance, steps in ((expected, 4), (restored, 2)):
        generator.manual_seed(2)
        for _ in range(steps):
            bags, gradient = random_bags(generator, ROWS, DIM)
            instance.lookup(bags)
            instance.update(bags, gradient, 0.1)
    saved = restored.weight.clone(), restored.state.clone()
    restored.lookup(bags)
    restored.update(bags, gradient, 0.3)  # changes weight and state after the save
    restored.weight.copy_(saved[0])
    restored.state.copy_(saved[1])
    for _ in range(2):
        bags, gradient = random_bags(generator, ROWS, DIM)
        restored.lookup(bags)
        restored.update(bags, gradient, 0.1)
    assert torch.equal(restored.weight, expected.weight)
    assert torch.equal(restored.state, expected.state)


@pytest.mark.parametrize("name", ["torch", "fbgemm"])
def test_lookup_without_update_changes_nothing(name: str) -> None:
    first, second = kernel(name), kernel(name)
    bags, gradient = random_bags(torch.Generator().manual_seed(3), ROWS, DIM)
    for instance in (first, second):
        instance.lookup(bags)
        instance.update(bags, gradient, 0.1)
    with torch.no_grad():
        assert not first.lookup(bags_of([1], [2])).requires_grad
    for instance in (first, second):
        assert not instance.lookup(bags).requires_grad
        instance.update(bags, gradient, 0.1)
    assert torch.equal(first.weight, second.weight)


def test_update_in_pieces_is_bit_identical(monkeypatch: pytest.MonkeyPatch) -> None:
    bags, gradient = random_bags(torch.Generator().manual_seed(4), ROWS, DIM)
    whole = kernel("torch")
    whole.update(bags, gradient, 0.1)
    num_rows = len(bags.rows.unique())
    for rows_of_a_piece in (1, 7, num_rows - 1, num_rows):
        monkeypatch.setitem(torch_kernels._PIECE_BYTES, "cpu", rows_of_a_piece * DIM * 4)
        pieces = kernel("torch")
        pieces.update(bags, gradient, 0.1)
        assert torch.equal(pieces.weight, whole.weight)
        assert torch.equal(pieces.state, whole.state)


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("num_bags", [0, 1, 50])
def test_update_without_counting_rows_is_the_same(num_bags: int, rule: str) -> None:
    """A GPU updates in this way, because it would have to wait for the number of distinct rows."""
    bags, gradient = random_bags(torch.Generator().manual_seed(4), ROWS, DIM, num_bags)
    usual, uncounted = kernel("torch", rule), kernel("torch", rule)
    usual.update(bags, gradient, 0.1)
    rows, order = bags.rows.sort(stable=True)
    uncounted.apply(torch_kernels._merge_without_counting(rows, bags.bag_of_row[order], gradient), 0.1)
    assert torch.equal(uncounted.weight, usual.weight)
    assert torch.equal(uncounted.state, usual.state)


def test_repeated_rows_are_summed_in_order_of_bags() -> None:
    """Check the order of a sum: 2^24 + 1 - 2^24 is 0 in float32, and 1 in another order."""
    instance = kernel("torch", "sgd")
    before = instance.weight.clone()
    gradient = torch.tensor([2.0**24, 1.0, -(2.0**24)])[:, None].expand(3, DIM).contiguous()
    instance.update(bags_of([4], [4], [4]), gradient, 1.0)
    assert torch.equal(instance.weight, before)


def test_fbgemm_is_used_on_cpu_only_if_configured() -> None:
    assert type(kernel("auto")) is TorchKernel
    assert type(kernel("torch")) is TorchKernel
    assert type(kernel("fbgemm")) is FbgemmKernel


@pytest.mark.parametrize(
    ("dim", "dtype", "reason"), [(6, torch.float32, "multiple of 4"), (8, torch.float64, "float64")]
)
def test_dim_and_dtype_that_fbgemm_cannot_compute_are_left_to_torch(
    dim: int, dtype: torch.dtype, reason: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(
        ConfigError, match=rf"^cannot use embedding\.kernel fbgemm: .*{reason}.* --set embedding\.kernel=torch$"
    ):
        choose("fbgemm", dim, dtype, CPU)
    assert choose("auto", dim, dtype, GPU) == "torch"
    assert capsys.readouterr().err == ""  # auto prints nothing


@pytest.fixture
def broken_fbgemm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Install a package that looks like an FBGEMM for another torch."""
    package = tmp_path / "fbgemm_gpu"
    package.mkdir()
    (package / "__init__.py").write_text(
        "import logging\nlogging.error('a page\\nabout it')\nraise OSError('undefined symbol: _ZN3c10\\nand so on')\n"
    )
    for name in list(sys.modules):  # it is imported again; monkeypatch restores the loaded modules
        if name.split(".")[0] == "fbgemm_gpu" or name == "trainer.scale.fbgemm_kernel":
            monkeypatch.delitem(sys.modules, name)
    monkeypatch.syspath_prepend(tmp_path)


@pytest.mark.usefixtures("broken_fbgemm")
def test_broken_fbgemm_is_refused_in_one_line_if_configured(
    capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    with pytest.raises(ConfigError) as raised:
        choose("fbgemm", DIM, torch.float32, CPU)
    assert str(raised.value) == (
        f"cannot use embedding.kernel fbgemm: the installed fbgemm-gpu-cpu does not fit torch {torch.__version__} "
        "(undefined symbol: _ZN3c10). Change it with --set embedding.kernel=torch"
    )
    assert capfd.readouterr().err == ""
    assert caplog.text == ""


@pytest.mark.usefixtures("broken_fbgemm")
def test_auto_uses_torch_instead_of_broken_fbgemm_with_one_line_per_host(capfd: pytest.CaptureFixture[str]) -> None:
    for rank in (0, 1):
        assert choose("auto", DIM, torch.float32, torch.device("cuda", rank)) == "torch"
    (line,) = capfd.readouterr().err.splitlines()
    assert line.startswith(
        "trainer: torch computes on the tables instead of FBGEMM: the installed fbgemm-gpu does not fit torch"
    )
    assert "undefined symbol" in line


def test_fbgemm_with_wrong_updates_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(FbgemmKernel, "update", lambda self, bags, gradient, learning_rate: None)
    with pytest.raises(ConfigError, match="its updates are wrong"):
        choose("fbgemm", DIM, torch.float32, CPU)


def test_missing_fbgemm_is_refused_only_if_configured(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert choose("auto", DIM, torch.float32, GPU) == "torch"
    assert capsys.readouterr().err == ""
    with pytest.raises(ConfigError, match="fbgemm-gpu-cpu is not installed"):
        choose("fbgemm", DIM, torch.float32, CPU)
