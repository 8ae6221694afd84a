"""Element-wise AdaGrad for embedding tables, as MLPerf's DLRM-DCNv2 has it. `config.py` registers it."""

from torch import Tensor

from trainer.optimizers import RowUpdate, add


def adagrad(update: RowUpdate, learning_rate: float, epsilon: float) -> Tensor:
    """Update rows by AdaGrad with one number of state per weight (Duchi et al., JMLR 12, 2011): the sum of squares.

    state += gradient²; weight -= learning_rate · gradient ÷ (√state + epsilon). The state takes as much memory as the
    weight, but the columns of a row do not depend on each other, so that their ranks exchange no moments.
    """
    state, rows, gradient, _ = update
    add(state, rows, gradient.square())
    scale = state.clone() if rows is None else state.index_select(0, rows)
    return gradient.div_(scale.sqrt_().add_(epsilon)).mul_(-learning_rate)
