"""Optimizers: one for dense parameters, one for embedding tables.

Dense layers use an optimizer of torch on one flat tensor; their parameters are slices of it. Tables use rules. A rule
returns the change of the rows that a batch looked up. Each rank updates what it holds, without communication.

Shapes: U distinct rows touched, D columns.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from trainer.errors import require

COLUMN_MOMENTS = ("shared", "separate")


class RowUpdate(NamedTuple):
    """The gradients of some rows of a table, and the optimizer state, which a rule changes in place."""

    state: Tensor  # (rows,), or (rows, D) for a rule of ELEMENTWISE
    rows: Tensor | None  # the rows touched (U,), each only once; None: all rows, in order
    gradient: Tensor  # (U, D); the update overwrites it
    mean_squares: Tensor | None = None  # (U,) of all columns of the table, if `gradient` has only some of them


Rule = Callable[[RowUpdate, float, float], Tensor]  # (update, learning rate, epsilon) → change of the weights (U, D)


def rowwise_adagrad(update: RowUpdate, learning_rate: float, epsilon: float) -> Tensor:
    """Return the change by AdaGrad with one state value per row: the sum of mean squared gradients (arXiv 2104.05158).

    state += mean(gradient²); change = −learning_rate · gradient ÷ (√state + epsilon). A row whose gradient is zero does
    not change.
    """
    state, rows, gradient, mean_squares = update
    if mean_squares is None:
        mean_squares = squared_norms(gradient).div_(gradient.shape[1])
    add_to_rows(state, rows, mean_squares)
    scale = state.clone() if rows is None else state.index_select(0, rows)
    scale.sqrt_().add_(epsilon).reciprocal_().mul_(-learning_rate)
    return gradient.mul_(scale[:, None])


def squared_norms(gradient: Tensor) -> Tensor:
    """Return the sum of the squares of each row's gradient (U,)."""
    return torch.linalg.vector_norm(gradient, dim=1).square_()


def adagrad(update: RowUpdate, learning_rate: float, epsilon: float) -> Tensor:
    """Return the change by AdaGrad with one state value per weight: the sum of squares (Duchi et al., JMLR 12, 2011).

    state += gradient²; change = −learning_rate · gradient ÷ (√state + epsilon). The state is as large as the weight.
    """
    state, rows, gradient, _ = update
    add_to_rows(state, rows, gradient.square())
    scale = state.clone() if rows is None else state.index_select(0, rows)
    return gradient.div_(scale.sqrt_().add_(epsilon)).mul_(-learning_rate)


def sgd(update: RowUpdate, learning_rate: float, _epsilon: float) -> Tensor:
    """Return the change by gradient descent: −learning_rate · gradient. The state is not used."""
    return update.gradient.mul_(-learning_rate)


def add_to_rows(target: Tensor, rows: Tensor | None, change: Tensor) -> None:
    """Add a change to these rows in place, or to all rows if `rows` is None."""
    if rows is None:
        target.add_(change)
    else:  # on a CPU, index_add_ takes twice as long with 32-bit indices or with an alpha
        target.index_add_(0, rows.long(), change)


RULES: dict[str, Rule] = {"rowwise_adagrad": rowwise_adagrad, "adagrad": adagrad, "sgd": sgd}
ELEMENTWISE = ("adagrad",)  # the rules with a state value for each weight, not one for each row


@dataclass(frozen=True)
class OptimizerConfig:
    """The optimizers. Their learning rates are multiplied by the factor of the schedule."""

    dense: str = "adagrad"  # optimizer of dense layers: adagrad, adam or sgd
    dense_learning_rate: float = 0.02  # learning rate of dense layers
    dense_epsilon: float = 1e-8  # for adagrad and adam; keeps the first update finite
    beta1: float = 0.9  # for adam; decay of the mean gradient in each step
    beta2: float = 0.999  # for adam; decay of the mean squared gradient in each step
    embedding: str = "rowwise_adagrad"  # optimizer of embedding tables: rowwise_adagrad, adagrad or sgd
    embedding_learning_rate: float = 0.05  # learning rate of embedding tables
    embedding_epsilon: float = 1e-8  # for rowwise_adagrad and adagrad; keeps the first update finite
    column_moments: str = "shared"  # moments of column-wise tables: shared by all columns (exact), or separate by rank

    def __post_init__(self) -> None:
        require(self.dense in DENSE, "optimizer.dense", self.dense, " or ".join(DENSE))
        require(self.embedding in RULES, "optimizer.embedding", self.embedding, " or ".join(RULES))
        choices = " or ".join(COLUMN_MOMENTS)
        require(self.column_moments in COLUMN_MOMENTS, "optimizer.column_moments", self.column_moments, choices)
        for name in ("dense_learning_rate", "embedding_learning_rate"):
            value = getattr(self, name)
            require(0 < value < float("inf"), f"optimizer.{name}", value, "above 0")
        for name in ("dense_epsilon", "embedding_epsilon"):
            value = getattr(self, name)
            require(1e-30 <= value <= 1, f"optimizer.{name}", value, "1e-30 to 1: float32 cannot divide by less")
        for name in ("beta1", "beta2"):
            value = getattr(self, name)
            require(0 <= value < 1, f"optimizer.{name}", value, "0 or more, and below 1")

    def state_shape(self, shape: tuple[int, int]) -> tuple[int, ...]:
        """Return the shape of the optimizer state of rows whose weight has this shape (rows, D)."""
        return shape if self.embedding in ELEMENTWISE else shape[:1]

    @property
    def shares_moments(self) -> bool:
        """Return True if the ranks that hold the columns of a table share one moment for each row."""
        return self.embedding == "rowwise_adagrad" and self.column_moments == "shared"


DENSE: dict[str, Callable[[OptimizerConfig, list[Tensor], bool | None], torch.optim.Optimizer]] = {
    "adagrad": lambda config, parameters, fused: torch.optim.Adagrad(parameters, eps=config.dense_epsilon, fused=fused),
    "adam": lambda config, parameters, fused: torch.optim.Adam(
        parameters, betas=(config.beta1, config.beta2), eps=config.dense_epsilon, fused=fused
    ),
    "sgd": lambda config, parameters, fused: torch.optim.SGD(parameters, fused=fused),
}


class DenseOptimizer:
    """The optimizer of torch for one flat parameter, whose gradient must exist and stay in `parameter.grad`.

    Its state exists before the first step, so that a checkpoint can be loaded into it. The constructor sets the
    gradient to zero.
    """

    def __init__(self, config: OptimizerConfig, parameter: nn.Parameter) -> None:
        fused = True if parameter.is_cpu else None  # on a CPU: one pass over memory; on a GPU, torch chooses
        self._parameter = parameter
        self._optimizer = DENSE[config.dense](config, [parameter], fused)
        assert parameter.grad is not None
        parameter.grad.zero_()
        self.step(0.0)  # some optimizers create their state in the first step; with rate 0 it changes no weight
        for tensor in self.state().values():
            tensor.zero_()

    def step(self, learning_rate: float) -> None:
        """Update the parameter in place by its gradient."""
        self._optimizer.param_groups[0]["lr"] = learning_rate
        self._optimizer.step()

    def state(self) -> dict[str, Tensor]:
        """Return the state tensors for checkpoints, by torch's names; a load writes into them. sgd has none."""
        state: dict[str, Any] = self._optimizer.state[self._parameter]
        return {name: value for name, value in state.items() if isinstance(value, Tensor)}
