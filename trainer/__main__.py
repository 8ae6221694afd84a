"""The command line: `torchrun --nproc-per-node R -m trainer`, or `python -m trainer` for a single rank."""

import os
import sys
import time
from typing import Any, NoReturn

import click
import torch
import torch.distributed as dist

import zmon
from trainer.config import Config
from trainer.errors import TrainerError
from trainer.keys import changed, parse_assignment, read_file
from trainer.planning import check
from trainer.presets import PRESETS
from trainer.run import Run, open_source
from trainer.world import join, world_from

NEWLINE = "\n"
MORE_ROOM = "Start more ranks, shrink train.global_batch or embedding.rows, or spread large tables by row_wise"
LAST_WORD_SECONDS = 5  # how long a rank other than 0 lets rank 0 speak for it


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--preset", type=click.Choice(list(PRESETS)), default="demo", show_default=True)
@click.option("--steps", type=int, help="Stop after this many; 0, the default of demo, runs until stopped.")
@click.option("--data", metavar="PATH", help="Train on a Criteo-Kaggle TSV, or on what trainer.prepare made of one.")
@click.option("--strict", is_flag=True, help="Stop at a malformed row of --data instead of skipping it.")
@click.option("--resume", metavar="auto|STEP|none", help="Go on from a checkpoint; auto: the newest, if there is one.")
@click.option("--config", metavar="YAML", help="Change the preset by the keys in this file.")
@click.option("--set", "assignments", metavar="A.B=C", multiple=True, help="Change a key, like train.seed=7.")
def configure(
    preset: str,
    steps: int | None,
    data: str | None,
    strict: bool,
    resume: str | None,
    config: str | None,
    assignments: tuple[str, ...],
) -> Config:
    """Train a DLRM synchronously on all ranks of the launcher."""
    changes: list[dict[str, Any]] = [read_file(config)] if config is not None else []
    changes += [parse_assignment(assignment) for assignment in assignments]
    if steps is not None:
        changes.append({"train": {"steps": steps}})
    if data is not None:
        changes.append({"criteo": {"file": data}})
    if strict:
        changes.append({"criteo": {"strict": True}})
    if resume is not None:
        changes.append({"checkpoint": {"resume": resume}})
    return changed(PRESETS[preset](), changes)


def main() -> None:
    """Configure, check, meet the other ranks, train. What goes wrong ends with one line and exit code 2."""
    try:
        config = configure.main(prog_name="python -m trainer", standalone_mode=False)
        if not isinstance(config, Config):  # --help was asked for
            return
        world = world_from(os.environ)
        check(config, world.size)
        zmon.attach()
        source = open_source(config, world)
        join(world)
        Run(config, world, source).train()
    except click.ClickException as error:
        _leave(error.format_message())
    except TrainerError as error:
        _leave(str(error))
    except (MemoryError, RuntimeError) as error:
        if not _out_of_memory(error):
            raise
        _leave(f"rank {os.environ.get('RANK', '0')} is out of memory: {str(error).partition(NEWLINE)[0]}. {MORE_ROOM}")
    dist.destroy_process_group()


def _out_of_memory(error: Exception) -> bool:
    """torch says it of a GPU in a class, of a processor in words."""
    return isinstance(error, MemoryError | torch.OutOfMemoryError) or "DefaultCPUAllocator" in str(error)


def _leave(line: str) -> NoReturn:
    """Say what is wrong and exit with 2, rank 0 for all: misuse is the same on every rank.

    A launcher ends all ranks at the first that exits, so the others give rank 0 time to speak. One that is
    still there after that has a trouble of its own, a file missing on its host alone for example, and says
    so itself.
    """
    if os.environ.get("RANK", "0") != "0":
        time.sleep(LAST_WORD_SECONDS)
    print(f"trainer: {line}", file=sys.stderr, flush=True)
    sys.exit(2)


if __name__ == "__main__":
    main()
