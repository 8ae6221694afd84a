"""The script of each rank of test_hosts.py: it trains every variant and counts the bytes sent within and between hosts.

Usage: train_on_hosts.py STEPS OUT VARIANTS; VARIANTS is a JSON object of changes by name (trainer.keys.apply_changes).
"""

import json
import os
import sys
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import torch
import torch.distributed as dist

from tests.trainer.train_and_save import train
from trainer.batch import Batch
from trainer.keys import apply_changes
from trainer.scale.dry_run import rank_steps
from trainer.scale.planning import dry_run_job, plan
from trainer.scale.presets import demo
from trainer.synthetic import Synthetic
from trainer.world import World, join, world_from

VECTORS = 2  # the place of pooled vectors among the all-to-alls of all ranks in a step, after lengths and rows


class Sent(NamedTuple):
    """Bytes that a rank sends to other ranks."""

    within_host: int
    across_hosts: int


class Even(Synthetic):
    """Samples whose ids are as even as the prediction assumes, two for each table.

    Every sample has an id in each half of a table, and ids are distinct until the half has no more.
    """

    def batch(self, step: int, start: int, size: int) -> Batch:
        """Return a batch with these ids."""
        _, rows, *_ = self.arguments
        samples = torch.arange(start, start + size)
        ids = [torch.stack([samples % (num // 2), num // 2 + samples % (num // 2)], dim=1) for num in rows]
        return replace(super().batch(step, start, size), ids=torch.cat(ids).flatten())


def count(world: World) -> tuple[list[Sent], list[Sent]]:
    """Count the bytes sent from now on: of each all-to-all of all ranks, and of each one inside a host."""
    world_bytes, host_bytes = list[Sent](), list[Sent]()
    all_to_all_single = dist.all_to_all_single

    def counting(output, tensor, received, sent, group=None, **options):
        row_bytes = tensor.element_size() * (tensor[0].numel() if len(tensor) else 0)
        within = across = 0
        for other, size in zip(dist.get_process_group_ranks(group or dist.group.WORLD), sent, strict=True):
            if other // world.local_size != world.rank // world.local_size:
                across += size * row_bytes
            elif other != world.rank:
                within += size * row_bytes
        (world_bytes if group is None else host_bytes).append(Sent(within, across))
        return all_to_all_single(output, tensor, received, sent, group, **options)

    dist.all_to_all_single = counting
    return world_bytes, host_bytes


def predicted(config, world: World) -> Sent:
    """Return the bytes that this rank sends in a step, as a dry run prints them."""
    job = dry_run_job(config, world.size, world.local_size)
    steps = rank_steps(plan(config, world), job.workload, job.machine, job.dense, job.operations_per_second)
    return Sent(steps[world.rank].bytes_within_host, steps[world.rank].bytes_across_hosts)


def total(calls: list[Sent]) -> Sent:
    """Return the sum of the bytes of several all-to-alls."""
    return Sent(sum(call.within_host for call in calls), sum(call.across_hosts for call in calls))


def main(steps: int, out: Path, variants: dict) -> None:
    """Train each variant, and save its result with the bytes that were counted and predicted."""
    world = world_from(os.environ)
    join(world)
    world_bytes, host_bytes = count(world)
    for name, changes in variants.items():
        config = apply_changes(demo(), changes)
        source = Even(config.synthetic, config.embedding.rows, config.model.dense_features, config.train.seed)
        world_bytes.clear()
        host_bytes.clear()
        result = train(config, world, steps, source)
        result["counted"] = tuple(total(world_bytes + host_bytes))
        result["predicted"] = tuple(steps * size for size in predicted(config, world))
        result["pooled_bytes_across_hosts"] = total(world_bytes[VECTORS :: len(world_bytes) // steps]).across_hosts
        # All-to-alls inside a host.
        result["num_inside"] = len(host_bytes)
        result["inside_bytes_across_hosts"] = total(host_bytes).across_hosts
        torch.save(result, out / f"{name}-{world.rank}.pt")
    dist.destroy_process_group()


if __name__ == "__main__":
    main(int(sys.argv[1]), Path(sys.argv[2]), json.loads(sys.argv[3]))
