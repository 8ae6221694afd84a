"""Tests of the update rules of tables against their formulas, and of the dense optimizers against torch."""

import pytest
import torch
from torch import Tensor, nn

from trainer.errors import ConfigError
from trainer.optimizers import DENSE, RULES, DenseOptimizer, OptimizerConfig, RowUpdate, add_to_rows

ROWS, TOUCHED, DIM = 50, 12, 6
RATE, EPSILON = 0.1, 0.01
TOLERANCE = {torch.float32: 3e-6, torch.float64: 1e-14}


def example(name: str, dtype: torch.dtype) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return weight, state, touched rows and their gradient, for a rule."""
    generator = torch.Generator().manual_seed(1)
    weight = torch.randn(ROWS, DIM, dtype=torch.float64, generator=generator)
    state = torch.rand(OptimizerConfig(embedding=name).state_shape((ROWS, DIM)), generator=generator).double()
    rows = torch.randperm(ROWS, generator=generator)[:TOUCHED]
    gradient = torch.randn(TOUCHED, DIM, dtype=torch.float64, generator=generator)
    return weight.to(dtype), state.to(dtype), rows, gradient.to(dtype)


def by_formula(name: str, weight: Tensor, state: Tensor, rows: Tensor, gradient: Tensor) -> tuple[Tensor, Tensor]:
    """Return weight and state after an update, by the formula of the rule in float64."""
    weight, state, gradient = weight.double(), state.double(), gradient.double()
    if name == "sgd":
        weight[rows] -= RATE * gradient
    elif name == "adagrad":
        state[rows] += gradient**2
        weight[rows] -= RATE * gradient / (state[rows].sqrt() + EPSILON)
    else:
        state[rows] += (gradient**2).mean(dim=1)
        weight[rows] -= RATE * gradient / (state[rows].sqrt() + EPSILON)[:, None]
    return weight, state


def update(name: str, weight: Tensor, state: Tensor, rows: Tensor | None, gradient: Tensor) -> None:
    """Update weight and state by the rule; rows None: the gradient has all rows."""
    add_to_rows(weight, rows, RULES[name](RowUpdate(state, rows, gradient), RATE, EPSILON))


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("index", [torch.int32, torch.int64])
@pytest.mark.parametrize("name", RULES)
def test_update_equals_formula_and_changes_no_other_row(name: str, index: torch.dtype, dtype: torch.dtype) -> None:
    weight, state, rows, gradient = example(name, dtype)
    formula = by_formula(name, weight, state, rows, gradient)
    update(name, weight, state, rows.to(index), gradient)
    for actual, exact in zip((weight, state), formula, strict=True):
        torch.testing.assert_close(actual.double(), exact, rtol=TOLERANCE[dtype], atol=TOLERANCE[dtype])


@pytest.mark.parametrize("name", RULES)
def test_dense_gradient_with_zero_rows_equals_sparse_gradient(name: str) -> None:
    weight, state, rows, gradient = example(name, torch.float32)
    state[7] = 0  # a row that never had a gradient must not become NaN either
    dense = torch.zeros_like(weight).index_copy_(0, rows, gradient)
    sparse_weight, sparse_state = weight.clone(), state.clone()
    update(name, sparse_weight, sparse_state, rows, gradient)
    update(name, weight, state, None, dense)
    assert torch.equal(weight, sparse_weight)
    assert torch.equal(state, sparse_state)


PLAIN = {  # the optimizers of torch, by name
    "sgd": lambda parameters: torch.optim.SGD(parameters, lr=0.1),
    "adagrad": lambda parameters: torch.optim.Adagrad(parameters, lr=0.1, eps=1e-3),
    "adam": lambda parameters: torch.optim.Adam(parameters, lr=0.1, betas=(0.8, 0.9), eps=1e-3),
}


def flat_parameter(values: Tensor) -> nn.Parameter:
    """Return a parameter with these values and a gradient."""
    parameter = nn.Parameter(values.clone())
    parameter.grad = torch.ones_like(parameter)
    return parameter


@pytest.mark.parametrize("name", DENSE)
def test_optimizer_of_flat_tensor_equals_torch_optimizer_of_layers(name: str) -> None:
    values = torch.linspace(-1, 1, 103, dtype=torch.float64)
    flat = flat_parameter(values)
    config = OptimizerConfig(dense=name, dense_epsilon=1e-3, beta1=0.8, beta2=0.9)
    optimizer = DenseOptimizer(config, flat)
    assert torch.equal(flat, values)
    layers = [nn.Parameter(piece.clone()) for piece in values.split([60, 43])]
    plain = PLAIN[name](layers)
    for step in range(1, 6):
        gradient = torch.sin(step * values)
        flat.grad.copy_(gradient)
        for layer, piece in zip(layers, gradient.split([60, 43]), strict=True):
            layer.grad = piece.clone()
        plain.param_groups[0]["lr"] = 0.1 / step
        optimizer.step(0.1 / step)
        plain.step()
    torch.testing.assert_close(flat.detach(), torch.cat([*layers]).detach(), rtol=1e-13, atol=1e-13)


@pytest.mark.parametrize(
    ("name", "keys"), [("sgd", set()), ("adagrad", {"step", "sum"}), ("adam", {"step", "exp_avg", "exp_avg_sq"})]
)
def test_optimizer_state_is_zero_before_first_step_and_can_be_restored(name: str, keys: set[str]) -> None:
    values = torch.linspace(-1, 1, 31)
    config = OptimizerConfig(dense=name)
    first = flat_parameter(values)
    optimizer = DenseOptimizer(config, first)
    assert set(optimizer.state()) == keys
    assert not any(tensor.any() for tensor in optimizer.state().values())
    first.grad.copy_(values.cos())
    optimizer.step(0.1)
    second = flat_parameter(first.detach())
    resumed = DenseOptimizer(config, second)
    for key, tensor in resumed.state().items():
        tensor.copy_(optimizer.state()[key])
    for parameter, its_optimizer in ((first, optimizer), (second, resumed)):
        parameter.grad.copy_(values.sin())
        its_optimizer.step(0.1)
    assert torch.equal(first, second)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("dense", "rprop"),
        ("embedding", "adam"),
        ("dense_learning_rate", 0.0),
        ("embedding_learning_rate", -1.0),
        ("dense_epsilon", 0.0),
        ("embedding_epsilon", 1e-40),
        ("beta1", 1.0),
        ("beta2", -0.1),
    ],
)
def test_invalid_optimizer_value_is_refused_with_its_key(name: str, value: object) -> None:
    with pytest.raises(ConfigError, match=f"optimizer.{name} is {value}"):
        OptimizerConfig(**{name: value})
