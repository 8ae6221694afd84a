"""The kernel that is faster on this machine, for `embedding.kernel=fastest`: torch's or FBGEMM's.

Rank 0 measures both on the ids of the first batch that go to its tables. All ranks use the faster one, because the two
round differently. Checkpoints record the choice, so a run that resumes is bit-identical, even on another machine.
"""

from __future__ import annotations

import json
import statistics
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import accumulate
from pathlib import Path
from typing import NamedTuple

import torch
import torch.distributed as dist
from torch import Tensor

from trainer.config import DTYPES
from trainer.errors import ConfigError
from trainer.faults import CheckedSource, same_error_on_all_ranks
from trainer.kernel import Bags, Kernel, Precision
from trainer.loader import Source
from trainer.registry import KINDS
from trainer.routing import Routed, Router
from trainer.scale.checkpoint import CheckpointConfig
from trainer.scale.checkpoint.folder import checkpoint_path, steps
from trainer.scale.checkpoint.writer import NUMBERS
from trainer.scale.config import RunConfig
from trainer.scale.encryption.files import files_under
from trainer.scale.kernel_choice import choose, open_kernel
from trainer.sharding import Group, Merge, Placement, groups_of, shards_of
from trainer.world import World

FASTEST = "fastest"  # the value of embedding.kernel
NUMBER_NAME = "fbgemm"  # of the number in checkpoints: 1 for FBGEMM, 0 for torch
_WARM_UP_ROUNDS = 3  # a round is a lookup and an update by each kernel; these are not measured
_ROUNDS = 9  # that are measured
_LEARNING_RATE = 0.1  # of these updates; it does not change their time
_MAX_ROWS = 1 << 20  # of the weight that is measured, so that it takes little memory; ids are taken modulo this number


class Choice(NamedTuple):
    """A kernel, and the reason for it, which is printed."""

    kernel: str  # torch or fbgemm
    reason: str


def with_fastest(config: RunConfig, world: World, source: Source, placements: Sequence[Placement]) -> RunConfig:
    """Return the configuration with the chosen kernel, if it has `fastest`. All ranks must call it together."""
    if config.embedding.kernel != FASTEST:
        return config
    message = ["", ""]  # from rank 0: the fields of its choice
    with same_error_on_all_ranks():
        if world.rank == 0:
            message = list(_read_choice(config.checkpoint) or _measure(config, world, source, placements))
    dist.broadcast_object_list(message)
    choice = Choice(*message)
    world.say(f"embedding.kernel: {choice.kernel}, because {choice.reason}")
    return replace(config, embedding=replace(config.embedding, kernel=choice.kernel))


def kernel_number(kernel: str) -> dict[str, float]:
    """Return the number that a checkpoint has for `embedding.kernel`; none for auto, whose choice is unknown here."""
    return {} if kernel == "auto" else {NUMBER_NAME: float(kernel == "fbgemm")}


def _read_choice(config: CheckpointConfig) -> Choice | None:
    """Return the kernel of the checkpoint from which the run resumes; None if there is no checkpoint or no choice."""
    folder = Path(config.folder)
    if not config.folder or config.resume == "none" or not folder.is_dir():
        return None
    candidates = [step for step in reversed(steps(folder)) if config.resume == "auto" or int(config.resume) == step]
    for step in candidates:
        with suppress(OSError, ValueError):  # if a checkpoint cannot be read, its load will say so, or skip it
            with files_under(config.key_file).open(checkpoint_path(folder, step) / NUMBERS) as file:
                number = json.loads(file.read()).get(NUMBER_NAME)
            if number is None:
                return None
            return Choice("fbgemm" if number else "torch", f"step {step} was computed with it")
    return None


def _measure(config: RunConfig, world: World, source: Source, placements: Sequence[Placement]) -> Choice:
    """Return the kernel that is faster on rank 0, which calls this, for its first group that FBGEMM supports."""
    embedding, device = config.embedding, world.device
    if embedding.memory or embedding.dtype:
        return Choice("torch", "rows on a disk or in half precision need it")
    shards = shards_of(placements, KINDS, embedding.rows, embedding.dims)
    groups = groups_of(shards, world.size)[world.rank]
    shares_moments = config.optimizer.shares_moments
    supported = (i for i, group in enumerate(groups) if not (shares_moments and group.merge is Merge.COLUMNS))
    index = next(supported, None)
    if index is None:
        return Choice("torch", "rank 0 has no tables that FBGEMM could compute on")
    group, precision = groups[index], Precision(DTYPES[config.train.dtype])
    try:
        choose("fbgemm", group.width, precision.dtype, device)
    except ConfigError as error:
        _, cause, _ = error.parts
        return Choice("torch", cause)
    checked_source = CheckedSource(source, embedding.rows, config.model.dense_features)
    batch = checked_source.batch(step=0, start=0, size=config.train.global_batch)
    shape = min(_MAX_ROWS, sum(shard.num_rows for shard in group.shards)), group.width
    bags = _bags_of_group(Router(shards).route(batch), groups, index, len(batch.labels))
    bags = Bags((bags.rows % shape[0]).to(device), bags.lengths.to(device))
    kernels = {name: open_kernel(name, config.optimizer, shape, precision, device) for name in ("torch", "fbgemm")}
    seconds = _seconds(kernels, bags, torch.ones(len(bags.lengths), group.width, dtype=precision.dtype, device=device))
    times = " and ".join(f"{name} takes {value * 1e3:.2f} ms" for name, value in seconds.items())
    return Choice(min(seconds, key=lambda name: seconds[name]), f"for the tables of rank 0 {times}")


def _bags_of_group(routed: Routed, groups: Sequence[Group], index: int, num_samples: int) -> Bags:
    """Return the bags of one of the groups of rank 0, which are the first groups of all."""
    first_rows = [*accumulate(routed.num_rows.tolist(), initial=0)]
    first_bags = [*accumulate((len(group.shards) * num_samples for group in groups), initial=0)]
    rows = routed.rows[first_rows[index] : first_rows[index + 1]]
    return Bags(rows, routed.lengths[first_bags[index] : first_bags[index + 1]])


def _seconds(kernels: Mapping[str, Kernel], bags: Bags, gradient: Tensor) -> dict[str, float]:
    """Return the median seconds of a lookup and an update by each kernel. The kernels take turns."""
    seconds: dict[str, list[float]] = {name: [] for name in kernels}
    for kernel in kernels.values():
        kernel.weight.zero_()
    for round_number in range(_WARM_UP_ROUNDS + _ROUNDS):
        for name, kernel in kernels.items():
            begin = time.perf_counter()
            kernel.begin(round_number, _LEARNING_RATE)
            kernel.lookup(bags)
            kernel.update(bags, gradient.clone(), _LEARNING_RATE)
            if gradient.is_cuda:
                torch.cuda.synchronize()
            if round_number >= _WARM_UP_ROUNDS:
                seconds[name].append(time.perf_counter() - begin)
    return {name: statistics.median(values) for name, values in seconds.items()}
