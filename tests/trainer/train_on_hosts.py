"""The script of each rank of test_hosts.py: it trains every variant and counts the bytes that leave its host.

Usage: train_on_hosts.py STEPS OUT VARIANTS; VARIANTS is a JSON object of changes by name (trainer.keys.apply_changes).
"""

import json
import os
import sys
from pathlib import Path

import torch
import torch.distributed as dist

from tests.trainer.train_and_save import train
from trainer.keys import apply_changes
from trainer.planning import plan, workload_of
from trainer.presets import demo
from trainer.sharding import KINDS
from trainer.sharding.cost import table_cost
from trainer.sharding.step import Step
from trainer.world import World, join, world_from

WORLD_CALLS = 4  # all-to-alls of all ranks in a step, in this order: lengths, rows, pooled vectors, gradients


def count(world: World) -> tuple[list[int], list[int]]:
    """Count the bytes to other hosts from now on: of each all-to-all of all ranks, and of all others."""
    of_world, of_hosts = list[int](), list[int]()
    all_to_all_single = dist.all_to_all_single

    def counting(output, tensor, received, sent, group=None, **options):
        row_bytes = tensor.element_size() * (tensor[0].numel() if len(tensor) else 0)
        hosts = [rank // world.local_size for rank in dist.get_process_group_ranks(group or dist.group.WORLD)]
        host = world.rank // world.local_size
        crossing = sum(size for other, size in zip(hosts, sent, strict=True) if other != host) * row_bytes
        (of_world if group is None else of_hosts).append(crossing)
        return all_to_all_single(output, tensor, received, sent, group, **options)

    dist.all_to_all_single = counting
    return of_world, of_hosts


def predicted(config, world: World) -> list[list[int]]:
    """Return the bytes of ids, pooled vectors and gradients that each rank sends to other hosts."""
    workload, machine = workload_of(config, world.size), config.sharding.machine(world.local_size)
    placements = plan(config, world).tables
    loads = sum(
        table_cost(KINDS[placement.kind], placement.ranks, table, workload, machine)
        for table, placement in zip(workload.tables, placements, strict=True)
    )
    crossing = Step(workload, machine).crossing_hosts(loads)
    assert (crossing == crossing.round()).all()
    return crossing.astype(int).tolist()


def main(steps: int, out: Path, variants: dict) -> None:
    world = world_from(os.environ)
    join(world)
    of_world, of_hosts = count(world)
    for name, changes in variants.items():
        config = apply_changes(demo(), changes)
        of_world.clear(), of_hosts.clear()
        result = train(config, world, steps)
        calls = [sum(of_world[call::WORLD_CALLS]) for call in range(WORLD_CALLS)]
        result["counted"] = [calls[0] + calls[1], calls[2], calls[3]]
        result["predicted"] = [steps * of_ranks[world.rank] for of_ranks in predicted(config, world)]
        result["inside"] = (len(of_hosts), sum(of_hosts))
        torch.save(result, out / f"{name}-{world.rank}.pt")
    dist.destroy_process_group()


if __name__ == "__main__":
    main(int(sys.argv[1]), Path(sys.argv[2]), json.loads(sys.argv[3]))
