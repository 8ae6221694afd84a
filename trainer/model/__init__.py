"""The dense part of a DLRM (arXiv 1906.00091), the same on every rank.

config.py  widths of the layers and the kind of interaction
dense.py   bottom MLP, interaction, top MLP
dot.py     the dot products of every pair of vectors
cross.py   the low-rank cross network of DLRM-DCNv2
flat.py    all parameters in one tensor, all gradients in another, all-reduced while backward runs
"""

from trainer.model.config import ModelConfig
from trainer.model.dense import DenseModel
from trainer.model.flat import FlatParameters, OverlapConfig

__all__ = ["DenseModel", "FlatParameters", "ModelConfig", "OverlapConfig"]
