"""The trainer at scale: what the core does not need. Its import registers the extensions of the core (registry.py).

    config.py          the whole configuration of `python -m trainer`; presets.py has well-known models
    run.py             a run from its start or from a checkpoint
    planning.py        the sharding plan of this run; sharding/ has the kinds and the planner
    plan_command.py    plans a job of any size without running it; dry_run.py and published.py describe the job
    host_reduction.py  sums inside a host; column_moments.py: mean squares over columns that several ranks hold
    kernel_choice.py   torch or FBGEMM (fbgemm_kernel.py); fastest_kernel.py measures which is faster
    pooled_check.py    a check of the sums of bags, which names the table of the first NaN
    half_precision.py  weights in bfloat16 or float16
    tier/              rows on a disk, with a cache of them in memory
    criteo.py          samples from Criteo rows, which tsv.py parses; prepare.py writes them to the files of shards.py
    multi_hot.py       samples from MLPerf's multi-hot files
    checkpoint/        saves and loads checkpoints; state.py has their tensors
    encryption/        encrypted samples and checkpoints; disk.py flushes files to the disk

The core works through the registry: a kind says which rank holds which rows and columns. All kinds share one exchange.
Modules that import torch are imported in the functions that need them, because a dry run of a published model runs
without torch.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

from trainer.registry import HOST_SUMS, KERNELS, KINDS, MOMENTS, TIERS, WEIGHT_TYPES, HostSums, Moments
from trainer.scale.sharding.kinds import ColumnWise, RowWise, TableRowWise
from trainer.sharding import Group, Merge, Shard

if TYPE_CHECKING:
    import torch

    from trainer.kernel import Kernel, Precision, TorchKernel
    from trainer.optimizers import OptimizerConfig
    from trainer.registry import Weights
    from trainer.world import World


def _host_sums(shards: Sequence[Shard], world: World) -> HostSums:
    from trainer.scale.host_reduction import HostReduction

    return HostReduction(shards, world)


def _moments(shards: Sequence[Shard], dims: Sequence[int], world: World, dtype: torch.dtype) -> Moments:
    from trainer.scale.column_moments import ColumnMoments

    return ColumnMoments(shards, dims, world, dtype)


def _kernel(
    name: str, optimizer: OptimizerConfig, shape: tuple[int, int], precision: Precision, device: torch.device
) -> Kernel:
    from trainer.scale.kernel_choice import open_kernel

    return open_kernel(name, optimizer, shape, precision, device)


def _tier(
    memory: int, folder: str, optimizer: OptimizerConfig, weights: Weights, device: torch.device
) -> Mapping[int, TorchKernel]:
    from trainer.scale.tier.memory import kernels_on_disk

    return kernels_on_disk(memory, folder, optimizer, weights, device)


def _half(name: str, dtype: torch.dtype, seed: int, group: Group, device: torch.device) -> Precision:
    import torch

    from trainer.scale.half_precision import HalfPrecision

    return HalfPrecision(getattr(torch, name), dtype, seed, group.shards, device)


_data_parallel = KINDS.pop("data_parallel")  # stays the last: the planner takes the first of several equal kinds
KINDS.update({kind.name: kind for kind in (RowWise(), ColumnWise(), TableRowWise(), _data_parallel)})
KERNELS.update({name: partial(_kernel, name) for name in ("auto", "fbgemm", "fastest")})
HOST_SUMS[Merge.HOST] = _host_sums
MOMENTS[Merge.COLUMNS] = _moments
WEIGHT_TYPES.update({name: partial(_half, name) for name in ("bfloat16", "float16")})
TIERS["file"] = _tier
