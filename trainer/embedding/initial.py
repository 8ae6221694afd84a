"""What a table starts with: the same numbers however it is spread over ranks."""

import numpy as np
import torch
from torch import Tensor

_BLOCK_ROWS = 8_192  # made at a time: a few MB of double precision beside the weight, at any time


def fill(weight: Tensor, seed: int, table: int, num_rows: int, first_row: int = 0) -> None:
    """Rows `first_row` and on of a table of `num_rows`, into `weight` (rows here, D).

    Uniform within ±1/√rows, as in facebookresearch/dlrm. A table has a generator of its own, which can be set to any of
    its rows: one number is drawn for each element.
    """
    bound = num_rows**-0.5
    bits = np.random.PCG64(np.random.SeedSequence([seed, 1, table]))  # 1: no other generator has this stream
    generator = np.random.Generator(bits.advance(first_row * weight.shape[1]))
    for block in weight.split(_BLOCK_ROWS):
        block.copy_(torch.from_numpy(generator.uniform(-bound, bound, tuple(block.shape))))
