"""The initial weights of embedding tables, which do not depend on the sharding."""

import numpy as np
import torch
from torch import Tensor

from trainer.sharding import Shard

_BLOCK_ROWS = 8_192  # rows generated at a time; they need a few MB of memory in double precision


def fill(weight: Tensor, seed: int, shard: Shard, num_rows: int, dim: int) -> None:
    """Fill `weight` with the initial values of a shard of a table of `num_rows` and `dim` columns.

    The values are uniform within ±1/√rows, as in facebookresearch/dlrm. Each table has its own generator, which can
    jump to any row because it draws one number for each element.
    """
    bound = num_rows**-0.5
    bits = np.random.PCG64(np.random.SeedSequence([seed, 1, shard.table]))  # 1: a stream that no other generator uses
    generator = np.random.Generator(bits.advance(shard.first_row * dim))
    for block in weight.split(_BLOCK_ROWS):
        values = torch.from_numpy(generator.uniform(-bound, bound, (len(block), dim)))
        block.copy_(values.narrow(1, shard.first_column, shard.num_columns))
