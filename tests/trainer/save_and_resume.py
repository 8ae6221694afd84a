"""The script of each rank of test_checkpoint_ranks.py. It changes tables and dense parameters, and saves checkpoints.

The rule of the changes does not depend on the number of ranks. At the end each rank writes its tensors to `out/RANK.pt`
beside FOLDER: for each tensor a list of its parts (trainer.scale.checkpoint.Part).
"""

import os
import resource
import signal
import sys
from pathlib import Path

import click
import torch
import torch.distributed as dist
from torch.distributed.checkpoint import FileSystemWriter

from trainer.errors import TrainerError
from trainer.registry import KINDS
from trainer.scale.checkpoint import CheckpointConfig, Checkpoints, Part, Rows, State, whole
from trainer.scale.sharding.plan import Plan
from trainer.sharding import Placement, groups_of, shards_of
from trainer.world import World, join, world_from

ROWS = (40, 7, 90)
DIM = 4
DENSE = 50


def plan_of(kinds: list[str], ranks: int) -> Plan:
    """Return a plan with tables of these kinds; whole tables start with the last rank."""
    placements = []
    for table, name in enumerate(kinds):
        choices = KINDS[name].choices(ranks, max(1, ranks // 2))
        placements.append(Placement(name, tuple(choices[(-1 - table) % len(choices)])))
    return Plan(ranks, tuple(placements))


def make_state(kinds: list[str], world: World, more_rows: int) -> State:
    """Return the state of this rank: the shards of a group are views of one large tensor; replicated tables are not."""
    rows = [count * more_rows for count in ROWS]
    plan = plan_of(kinds, world.size)
    state = {"dense": whole(torch.zeros(DENSE)), "dense.sum": whole(torch.zeros(DENSE))}
    parts: dict[str, list[Part]] = {}
    shards = shards_of(plan.tables, KINDS, rows, [DIM] * len(rows))
    for group in groups_of(shards, world.size)[world.rank]:
        num_rows = [shard.num_rows for shard in group.shards]
        weights = torch.zeros(sum(num_rows), group.width).split(num_rows)
        sums = torch.zeros(sum(num_rows)).split(num_rows)
        for shard, weight, weight_sums in zip(group.shards, weights, sums, strict=True):
            weight_part = Part(shard.first_row, weight, shard.first_column)
            parts.setdefault(f"table.{shard.table}.weight", []).append(weight_part)
            parts.setdefault(f"table.{shard.table}.sum", []).append(Part(shard.first_row, weight_sums))
    for table, placement in enumerate(plan.tables):
        names_and_shapes = {f"table.{table}.weight": (rows[table], DIM), f"table.{table}.sum": (rows[table],)}
        for name, shape in names_and_shapes.items():
            replicated, num_columns = KINDS[placement.kind].replicated, DIM if len(shape) == 2 else None
            local_parts = [Part(0, torch.zeros(shape))] if replicated else parts.get(name, ())
            state[name] = Rows(rows[table], local_parts, num_columns)
    return state


def train(state: State, step: int) -> None:
    """Change each number depending on only its row, its column and the step."""
    for rows in state.values():
        for first_row, tensor, first_column, _ in rows.parts:
            row = torch.arange(first_row, first_row + len(tensor), dtype=tensor.dtype)
            if tensor.dim() == 2:
                row = row[:, None] + torch.arange(first_column, first_column + tensor.shape[1]) / 8
            tensor.mul_(1.01).add_(torch.sin(row * step))


def die(when: str) -> None:
    """Kill this rank in the middle of a save: while it writes files, or before the checkpoint is complete."""

    def dying(*_: object, **__: object) -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    setattr(FileSystemWriter, when, dying)


@click.command()
@click.argument("folder", type=Path)
@click.option("--kinds", default="table_wise,row_wise,data_parallel")
@click.option("--steps", default=6)
@click.option("--every", default=2)
@click.option("--sync", is_flag=True)
@click.option("--more-rows", default=1)
@click.option(
    "--die", "kill_at", nargs=3, help="When, at which step, on which rank (or all); not again after a resume."
)
@click.option("--largest-file", type=int)
def main(folder: Path, kinds, steps, every, sync, more_rows, kill_at, largest_file):
    """Resume from the checkpoints in FOLDER, train the steps that are left, and save every few steps."""
    world = world_from(os.environ)
    join(world)
    state = make_state(kinds.split(","), world, more_rows)
    config = CheckpointConfig(str(folder), every, keep=3, asynchronous=not sync, timeout_seconds=20)
    when_killed, kill_step, killed_rank = kill_at or ("", "0", "")
    try:
        checkpoints = Checkpoints(config, state, world.warn)
        done, numbers = checkpoints.resume()
        world.say(f"resumed at {done} with {numbers}")
        if largest_file:
            resource.setrlimit(resource.RLIMIT_FSIZE, (largest_file, largest_file))
        for step in range(done + 1, steps + 1):
            train(state, step)
            dist.all_reduce(torch.zeros(1))
            if not done and step == int(kill_step) and killed_rank in (str(world.rank), "all"):
                checkpoints.wait()
                die(when_killed)
            if checkpoints.is_due(step):
                checkpoints.save(step, {"loss": 1 / step, "lifetime": numbers.get("lifetime", 0) + step})
        checkpoints.wait()
    except TrainerError as error:
        sys.stderr.write(f"trainer: rank {world.rank}: {error}\n")  # in one write, or the lines of two ranks mix
        dist.barrier()  # all ranks have printed their line: the launcher ends all ranks when the first one exits
        sys.exit(2)
    out = folder.parent / "out"
    out.mkdir(exist_ok=True)
    torch.save(
        {
            name: [(part.first_row, part.read(), part.first_column) for part in rows.parts]
            for name, rows in state.items()
        },
        out / f"{world.rank}.pt",
    )
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
