"""The kernel that is faster on this machine, for `embedding.kernel=fastest`: torch's or FBGEMM's.

Rank 0 measures both on the ids of the first batch that go to its tables, and all ranks use the faster one, since the
two round differently. Checkpoints record the choice. So a run that resumes is bit-identical, even on another machine.
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

import torch
import torch.distributed as dist
from torch import Tensor

from trainer.config import DTYPES
from trainer.errors import ConfigError
from trainer.faults import CheckedSource, raised_on_all_ranks
from trainer.kernel import Bags, Kernel, Precision
from trainer.loader import Source
from trainer.registry import KINDS
from trainer.routing import Router
from trainer.scale.checkpoint import CheckpointConfig
from trainer.scale.checkpoint.folder import checkpoint_path, steps
from trainer.scale.checkpoint.writer import NUMBERS
from trainer.scale.config import RunConfig
from trainer.scale.encryption.files import files_under
from trainer.scale.kernel_choice import choose, open_kernel
from trainer.sharding import Merge, Placement, groups_of, shards_of
from trainer.world import World

FASTEST = "fastest"  # the value of embedding.kernel
RECORDED = "fbgemm"  # the name of a number in checkpoints: 1 for FBGEMM, 0 for torch
_ROUNDS, _WARM_UP, _RATE = 9, 3, 0.1
_MAX_ROWS = 1 << 20  # of the tables that are measured, so that they take little memory; ids repeat beyond


def with_fastest(config: RunConfig, world: World, source: Source, placements: Sequence[Placement]) -> RunConfig:
    """Return the configuration with the chosen kernel, if it has `fastest`. All ranks must call it together."""
    if config.embedding.kernel != FASTEST:
        return config
    chosen = ["", ""]
    with raised_on_all_ranks():
        if world.rank == 0:
            chosen = [*(_read_choice(config.checkpoint) or _measure(config, world, source, placements))]
    dist.broadcast_object_list(chosen)
    kernel, reason = chosen
    world.say(f"embedding.kernel: {kernel}, because {reason}")
    return replace(config, embedding=replace(config.embedding, kernel=kernel))


def record(kernel: str) -> dict[str, float]:
    """Return what a checkpoint records of `embedding.kernel`: nothing with auto, whose choice is not known here."""
    return {} if kernel == "auto" else {RECORDED: float(kernel == "fbgemm")}


def _read_choice(config: CheckpointConfig) -> tuple[str, str] | None:
    """Return the choice of the checkpoint from which the run resumes, and the reason; None if there is none."""
    folder = Path(config.folder)
    if not config.folder or config.resume == "none" or not folder.is_dir():
        return None
    saved = [step for step in reversed(steps(folder)) if config.resume == "auto" or int(config.resume) == step]
    for step in saved:
        # If a checkpoint cannot be read, its load will say so, or skip it.
        with (
            suppress(OSError, ValueError),
            files_under(config.key_file).open(checkpoint_path(folder, step) / NUMBERS) as file,
        ):
            number = json.loads(file.read()).get(RECORDED)
            return None if number is None else ("fbgemm" if number else "torch", f"step {step} was computed with it")
    return None


def _measure(config: RunConfig, world: World, source: Source, placements: Sequence[Placement]) -> tuple[str, str]:
    """Return the faster kernel of this rank, and the reason."""
    embedding, device = config.embedding, world.device
    if embedding.memory or embedding.dtype:
        return "torch", "rows on a disk or in half precision need it"
    shards = shards_of(placements, KINDS, embedding.rows, embedding.dims)
    groups, shares = groups_of(shards, world.size)[world.rank], config.optimizer.shares_moments
    number = next((n for n, group in enumerate(groups) if not (shares and group.merge is Merge.COLUMNS)), None)
    if number is None:
        return "torch", "rank 0 has no tables that FBGEMM could compute on"
    group, precision = groups[number], Precision(DTYPES[config.train.dtype])
    try:
        choose("fbgemm", group.width, precision.dtype, device)
    except ConfigError as error:
        return "torch", error.parts[1]
    batch = CheckedSource(source, embedding.rows, config.model.dense_features).batch(0, 0, config.train.global_batch)
    routed = Router(shards).route(batch)
    num_rows = min(_MAX_ROWS, sum(shard.num_rows for shard in group.shards))
    begins = [*accumulate(routed.num_rows.tolist(), initial=0)]
    sizes = [len(local_group.shards) for local_group in groups]
    rows = routed.rows[begins[number] : begins[number + 1]] % num_rows
    lengths = routed.lengths.view(-1, len(batch.labels))[sum(sizes[:number]) : sum(sizes[: number + 1])].flatten()
    shape, bags = (num_rows, group.width), Bags(rows.to(device), lengths.to(device))
    kernels = {name: open_kernel(name, config.optimizer, shape, precision, device) for name in ("torch", "fbgemm")}
    seconds = _seconds(kernels, bags, torch.ones(len(lengths), group.width, dtype=precision.dtype, device=device))
    taken = " and ".join(f"{name} takes {value * 1e3:.2f} ms" for name, value in seconds.items())
    return min(seconds, key=lambda name: seconds[name]), f"for the tables of rank 0 {taken}"


def _seconds(kernels: Mapping[str, Kernel], bags: Bags, gradient: Tensor) -> dict[str, float]:
    """Return the median seconds of a look-up and an update by each kernel, in turns."""
    seconds: dict[str, list[float]] = {name: [] for name in kernels}
    for kernel in kernels.values():
        kernel.weight.zero_()
    for number in range(_WARM_UP + _ROUNDS):
        for name, kernel in kernels.items():
            begin = time.perf_counter()
            kernel.begin(number, _RATE)
            kernel.lookup(bags)
            kernel.update(bags, gradient.clone(), _RATE)
            if gradient.is_cuda:
                torch.cuda.synchronize()
            if number >= _WARM_UP:
                seconds[name].append(time.perf_counter() - begin)
    return {name: statistics.median(values) for name, values in seconds.items()}
