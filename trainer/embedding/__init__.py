"""Embedding tables: lookup with sum pooling, and exact updates that never make a gradient of a table's size.

bags.py        what is looked up: rows, and where each bag of them ends
initial.py     what a table starts with, the same however it is spread
tables.py      the rows that lie on this rank and are looked up for all ranks
replicated.py  the tables that every rank has a copy of
torch_kernel.py   lookup and update in plain torch
fbgemm_kernel.py  the same by FBGEMM's table-batched kernels, where they are installed
"""

from trainer.embedding.bags import Bags
from trainer.embedding.config import EmbeddingConfig
from trainer.embedding.replicated import Replicated
from trainer.embedding.tables import Tables

__all__ = ["Bags", "EmbeddingConfig", "Replicated", "Tables"]
