"""The dense part of a DLRM (arXiv 1906.00091), the same on every rank.

config.py  widths, and which interaction
dense.py   bottom MLP, interaction, top MLP
dot.py     every vector times every other
cross.py   the low-rank cross network of DLRM-DCNv2
flat.py    all its parameters in one tensor, all gradients in another, summed over the ranks while backward runs
"""

from trainer.model.config import ModelConfig
from trainer.model.dense import DenseModel
from trainer.model.flat import Flat, OverlapConfig

__all__ = ["DenseModel", "Flat", "ModelConfig", "OverlapConfig"]
