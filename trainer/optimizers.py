"""What a step does to the weights once it knows their gradients: one optimizer for dense layers, one for tables.

Dense layers have torch's own, on one flat tensor that all of them are slices of. Tables have rules that touch only the
rows a batch looked up. Each rank computes the same on what it holds; nothing here talks to another rank.

Shapes: U different rows touched, D columns.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from trainer.errors import require

# weight (rows, D), state (rows,), rows touched (U,), their gradients (U, D), learning rate, epsilon; in place
Rule = Callable[[Tensor, Tensor, Tensor | None, Tensor, float, float], None]


def rowwise_adagrad(
    weight: Tensor, state: Tensor, rows: Tensor | None, gradient: Tensor, learning_rate: float, epsilon: float
) -> None:
    """AdaGrad with one number of state a row: the running sum of the mean square of its gradient (arXiv 2104.05158).

    state += mean(gradient²); weight -= learning_rate · gradient ÷ (√state + epsilon). No row may stand twice in `rows`;
    None is all of them, in order. A row whose gradient is zero stays as it is. `gradient` is overwritten.
    """
    _add(state, rows, torch.linalg.vector_norm(gradient, dim=1).square_().div_(gradient.shape[1]))
    scale = state.clone() if rows is None else state.index_select(0, rows)
    scale.sqrt_().add_(epsilon).reciprocal_().mul_(-learning_rate)
    _add(weight, rows, gradient.mul_(scale[:, None]))


def sgd(
    weight: Tensor, state: Tensor, rows: Tensor | None, gradient: Tensor, learning_rate: float, epsilon: float
) -> None:
    """weight -= learning_rate · gradient, for these rows or for all. Has no state; `gradient` is overwritten."""
    del state, epsilon
    _add(weight, rows, gradient.mul_(-learning_rate))


def _add(to: Tensor, rows: Tensor | None, change: Tensor) -> None:
    """On a CPU index_add_ takes twice as long with rows of 32 bits, or with a factor of its own."""
    if rows is None:
        to.add_(change)
    else:
        to.index_add_(0, rows.long(), change)


RULES: dict[str, Rule] = {"rowwise_adagrad": rowwise_adagrad, "sgd": sgd}


@dataclass(frozen=True)
class OptimizerConfig:
    """Rates are those at the full rate of the schedule."""

    dense: str = "adagrad"  # adagrad, adam or sgd
    dense_learning_rate: float = 0.02  # of dense layers
    dense_epsilon: float = 1e-8  # of adagrad and adam: keeps the first update finite
    beta1: float = 0.9  # of adam: how much of the mean gradient is kept in a step
    beta2: float = 0.999  # of adam: the same for its square
    embedding: str = "rowwise_adagrad"  # or sgd
    embedding_learning_rate: float = 0.05  # of tables
    embedding_epsilon: float = 1e-8  # of rowwise_adagrad

    def __post_init__(self) -> None:
        require(self.dense in DENSE, "optimizer.dense", self.dense, " or ".join(DENSE))
        require(self.embedding in RULES, "optimizer.embedding", self.embedding, " or ".join(RULES))
        for name in ("dense_learning_rate", "embedding_learning_rate"):
            value = getattr(self, name)
            require(0 < value < float("inf"), f"optimizer.{name}", value, "above 0")
        for name in ("dense_epsilon", "embedding_epsilon"):
            value = getattr(self, name)
            require(1e-30 <= value <= 1, f"optimizer.{name}", value, "1e-30 to 1, for float32 cannot divide by less")
        for name in ("beta1", "beta2"):
            value = getattr(self, name)
            require(0 <= value < 1, f"optimizer.{name}", value, "0 or more, and below 1")


DENSE: dict[str, Callable[[OptimizerConfig, list[Tensor], bool | None], torch.optim.Optimizer]] = {
    "adagrad": lambda config, parameters, fused: torch.optim.Adagrad(parameters, eps=config.dense_epsilon, fused=fused),
    "adam": lambda config, parameters, fused: torch.optim.Adam(
        parameters, betas=(config.beta1, config.beta2), eps=config.dense_epsilon, fused=fused
    ),
    "sgd": lambda config, parameters, fused: torch.optim.SGD(parameters, fused=fused),
}


class DenseOptimizer:
    """torch's optimizer of one flat parameter whose gradient is there, and stays, in `parameter.grad`.

    Its state exists before the first step, so that a checkpoint can be loaded into it. Sets the gradient to zero.
    """

    def __init__(self, config: OptimizerConfig, parameter: nn.Parameter) -> None:
        fused = True if parameter.is_cpu else None  # one pass over memory on a CPU; on a GPU as torch sees fit
        self._parameter = parameter
        self._torch = DENSE[config.dense](config, [parameter], fused)
        assert parameter.grad is not None
        parameter.grad.zero_()
        self.step(0.0)  # some optimizers make their state in their first step; this one changes nothing
        for tensor in self.state().values():
            tensor.zero_()

    def step(self, learning_rate: float) -> None:
        """Update the parameter in place by the gradient that it has."""
        self._torch.param_groups[0]["lr"] = learning_rate
        self._torch.step()

    def state(self) -> dict[str, Tensor]:
        """What a checkpoint has to keep, by torch's names, to be written into; none for sgd."""
        kept: dict[str, Any] = self._torch.state[self._parameter]
        return {name: value for name, value in kept.items() if isinstance(value, Tensor)}
