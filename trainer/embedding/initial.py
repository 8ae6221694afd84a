"""The initial weights of embedding tables, which do not depend on the sharding."""

import numpy as np
import torch
from torch import Tensor

_BLOCK_ROWS = 8_192  # rows generated at a time; they need a few MB of memory in double precision


def fill(weight: Tensor, seed: int, table: int, num_rows: int, first_row: int = 0) -> None:
    """Fill `weight` (n, D) with the initial values of rows `first_row` and on of a table of `num_rows`.

    The values are uniform within ±1/√rows, as in facebookresearch/dlrm. Each table has its own generator, which can
    jump to any row because it draws one number for each element.
    """
    bound = num_rows**-0.5
    bits = np.random.PCG64(np.random.SeedSequence([seed, 1, table]))  # 1: a stream that no other generator uses
    generator = np.random.Generator(bits.advance(first_row * weight.shape[1]))
    for block in weight.split(_BLOCK_ROWS):
        block.copy_(torch.from_numpy(generator.uniform(-bound, bound, tuple(block.shape))))
