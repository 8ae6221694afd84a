"""Embedding tables: lookup with sum pooling, and exact updates without a gradient of a table's size.

bags.py        the input of a lookup: rows, and the length of each bag
initial.py     the initial weights, which do not depend on the sharding
tables.py      the table shards of this rank, looked up for the samples of all ranks
column_moments.py  mean squares over columns that several ranks hold
replicated.py  the tables of which every rank has a copy
kernel.py      the choice of the kernel
torch_kernel.py   lookup and update in plain torch
fbgemm_kernel.py  lookup and update by FBGEMM's table-batched kernels
"""

from trainer.embedding.bags import Bags
from trainer.embedding.column_moments import ColumnMoments
from trainer.embedding.config import EmbeddingConfig
from trainer.embedding.replicated import ReplicatedTables
from trainer.embedding.tables import ShardedTables

__all__ = ["Bags", "ColumnMoments", "EmbeddingConfig", "ReplicatedTables", "ShardedTables"]
