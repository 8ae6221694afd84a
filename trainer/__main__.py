"""The command line: `torchrun --nproc-per-node R -m trainer`, or `python -m trainer` for a single rank."""

import os
import sys
import time
from typing import Any, NoReturn

import click
import torch
import torch.distributed as dist

import zmon
from trainer.errors import TrainerError
from trainer.keys import apply_options
from trainer.scale.config import RunConfig
from trainer.scale.planning import check
from trainer.scale.presets import PRESETS
from trainer.scale.run import Run, open_source
from trainer.world import join, world_from

OUT_OF_MEMORY_HINT = "Start more ranks, reduce train.global_batch or embedding.rows, or use row_wise for large tables"
RANK_0_SECONDS = 5  # the other ranks wait this long before they print an error, so that rank 0 prints it for all


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--preset", type=click.Choice(list(PRESETS)), default="demo", show_default=True, help="The model to train."
)
@click.option("--steps", type=int, help="Stop after this many steps; 0, the default of demo, trains until stopped.")
@click.option(
    "--data", metavar="PATH", help="Train on a Criteo-Kaggle TSV, the output of trainer.prepare, or MLPerf's files."
)
@click.option("--strict", is_flag=True, help="Stop at a malformed row of --data instead of skipping it.")
@click.option(
    "--resume", metavar="auto|STEP|none", help="Resume from a checkpoint: auto takes the newest, if there is one."
)
@click.option("--config", metavar="YAML", help="A file with keys that override the preset.")
@click.option("--set", "assignments", metavar="A.B=C", multiple=True, help="Override one key, such as train.seed=7.")
def configure(
    preset: str,
    steps: int | None,
    data: str | None,
    strict: bool,
    resume: str | None,
    config: str | None,
    assignments: tuple[str, ...],
) -> RunConfig:
    """Train a DLRM synchronously on all ranks that the launcher started."""
    changes: list[dict[str, Any]] = []
    if steps is not None:
        changes.append({"train": {"steps": steps}})
    if data is not None:
        changes.append({"criteo": {"file": data}})
    if strict:
        changes.append({"criteo": {"strict": True}})
    if resume is not None:
        changes.append({"checkpoint": {"resume": resume}})
    return apply_options(PRESETS[preset](), config, assignments, changes)


def main() -> None:
    """Read the configuration, check it, join the process group and train.

    An error of the user ends the process with one line on stderr and exit code 2.
    """
    try:
        config = configure.main(prog_name="python -m trainer", standalone_mode=False)
        if not isinstance(config, RunConfig):  # --help was given
            return
        world = world_from(os.environ)
        check(config, world.size, world.local_size)
        zmon.attach()
        source = open_source(config, world)
        join(world)
        Run(config, world, source).train()
    except click.ClickException as error:
        _exit(error.format_message())
    except TrainerError as error:
        _exit(str(error))
    except (MemoryError, RuntimeError) as error:
        if not _is_out_of_memory(error):
            raise
        cause = str(error).partition("\n")[0]
        _exit(f"rank {os.environ.get('RANK', '0')} is out of memory: {cause}. {OUT_OF_MEMORY_HINT}")
    dist.destroy_process_group()


def _is_out_of_memory(error: Exception) -> bool:
    """Return True if a GPU or the host ran out of memory; torch has an error class for GPUs only."""
    return isinstance(error, MemoryError | torch.OutOfMemoryError) or "DefaultCPUAllocator" in str(error)


def _exit(line: str) -> NoReturn:
    """Print the error and exit with code 2.

    Misuse is the same on every rank, so only rank 0 prints it: the other ranks wait, and the launcher ends them when
    rank 0 exits. If a rank is still running after the wait, only this rank has the error, for example because a file is
    missing on its host. Then it prints the error itself.
    """
    if os.environ.get("RANK", "0") != "0":
        time.sleep(RANK_0_SECONDS)
    print(f"trainer: {line}", file=sys.stderr, flush=True)
    sys.exit(2)


if __name__ == "__main__":
    main()
