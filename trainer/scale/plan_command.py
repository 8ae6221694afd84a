"""The dry run of a job of any size: `python -m trainer.plan --preset zionex-a --ranks 128 --ranks-per-host 8`.

It plans the tables and predicts memory, bytes and seconds of each rank. It needs no process group and allocates no
table. The presets of published models need no torch either.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from trainer.errors import ConfigError, TrainerError
from trainer.scale.dry_run import Job, as_text, rank_steps
from trainer.scale.published import PUBLISHED, ZIONEX
from trainer.scale.sharding.plan import Plan, load_plan
from trainer.scale.sharding.planner import AUTO, RESERVE, check_fits, choose, predict
from trainer.scale.sharding.workload import Workload, with_tiers

if TYPE_CHECKING:  # It imports torch, which takes 200 MB.
    from trainer.scale.config import RunConfig

# Parts of the memory of all ranks and hosts to try for rows: a batch needs the rest, and ranks are not equally full.
_PARTS = (1.0, 0.95, 0.9, 0.85, 0.8, 0.7, 0.6, 0.5)


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--preset", default="demo", show_default=True, help="A preset of the trainer, or a published model.")
@click.option("--ranks", type=click.IntRange(1), required=True, help="The ranks of the job.")
@click.option("--ranks-per-host", type=click.IntRange(1), help="The ranks of a host; default: all.")
@click.option("--config", metavar="YAML", help="A file with keys that override the preset of the trainer.")
@click.option("--set", "assignments", metavar="A.B=C", multiple=True, help="Override one key, such as train.seed=7.")
@click.option("--save", metavar="YAML", help="Save the plan to this file, like sharding.save.")
def dry_run(
    preset: str,
    ranks: int,
    ranks_per_host: int | None,
    config: str | None,
    assignments: tuple[str, ...],
    save: str | None,
) -> None:
    """Plan a job and predict its step, without running it."""
    if preset in PUBLISHED:
        if config is not None or assignments:
            raise ConfigError(
                f"{preset} has no keys",
                "it is a published model",
                "Leave out --config and --set, or use another preset",
            )
        job = _published(preset, ranks, ranks_per_host or ranks)
        workload, plan = plan_job(job)
    else:
        from trainer.scale.planning import dry_run_job  # imports torch, which takes 200 MB

        keys = _configure(preset, config, assignments)
        job = dry_run_job(keys, ranks, ranks_per_host or ranks)
        if keys.sharding.plan:
            workload, plan = job.workload, load_job_plan(job, Path(keys.sharding.plan))
        else:
            workload, plan = plan_job(job)
        save = save or keys.sharding.save
    if save:
        plan.save(Path(save))
    steps = rank_steps(plan, workload, job.machine, job.dense, job.operations_per_second)
    click.echo(f"{preset} on {ranks} ranks, {job.machine.ranks_per_host} per host")
    for line in (*job.facts, "", as_text(plan, workload, steps, job.published_samples_per_second)):
        click.echo(line)


def plan_job(job: Job) -> tuple[Workload, Plan]:
    """Return the workload and its plan.

    Rows that do not fit into the memory of the ranks are in the memory of their hosts. The rest is on a disk.
    """
    for workload in _workloads(job):
        try:
            return workload, choose(
                workload,
                job.machine,
                job.kinds,
                memory_bytes=job.memory_bytes,
                base_bytes=job.base_bytes,
                host_memory_bytes=job.host_memory_bytes,
                disk_bytes=job.disk_bytes,
            )
        except ConfigError as error:
            last = error
    raise last


def load_job_plan(job: Job, path: Path) -> Plan:
    """Return the plan of this file, with its prediction. Raises ConfigError if it does not fit the job."""
    workload, machine = job.workload, job.machine
    plan = load_plan(path, len(workload.tables), workload.num_ranks, machine.ranks_per_host)
    plan = predict(plan, workload, machine, job.base_bytes)
    check_fits(plan, job.memory_bytes)
    return plan


def _workloads(job: Job) -> Iterator[Workload]:
    """Yield the workload with all rows in the memory of the ranks, then with more and more rows elsewhere."""
    yield job.workload
    ranks = job.workload.num_ranks
    rooms = [int((job.memory_bytes - job.base_bytes) * ranks * part) for part in _PARTS]
    if job.host_memory_bytes:
        yield from (with_tiers(job.workload, room) for room in rooms)
        if job.disk_bytes:
            for room, part in zip(rooms, _PARTS, strict=True):
                yield with_tiers(job.workload, room, int(job.host_memory_bytes * ranks * part))


def _configure(preset: str, config: str | None, assignments: Sequence[str]) -> RunConfig:
    from trainer.keys import apply_options  # imports torch too
    from trainer.scale.presets import PRESETS

    if preset not in PRESETS:
        names = ", ".join((*PRESETS, *PUBLISHED))
        raise ConfigError(f"there is no preset {preset}", "it is misspelt", f"Use {names}")
    return apply_options(PRESETS[preset](), config, assignments)


def _published(preset: str, ranks: int, ranks_per_host: int) -> Job:
    model, workload = PUBLISHED[preset], PUBLISHED[preset].workload(ranks)
    return Job(
        facts=(*model.facts(), ZIONEX.facts()),
        workload=workload,
        machine=ZIONEX.machine(ranks_per_host),
        dense=model.dense,
        operations_per_second=ZIONEX.operations_per_second,
        kinds=(AUTO,) * len(workload.tables),
        memory_bytes=int(ZIONEX.memory_bytes * (1 - RESERVE)),
        host_memory_bytes=ZIONEX.host_memory_bytes,
        disk_bytes=ZIONEX.disk_bytes,
        published_samples_per_second=model.samples_per_second if ranks == 128 else None,
    )


def main() -> None:
    """Run the command. An error of the user ends it with one line on stderr and exit code 2."""
    try:
        dry_run.main(prog_name="python -m trainer.plan", standalone_mode=False)
    except (click.ClickException, TrainerError) as error:
        message = error.format_message() if isinstance(error, click.ClickException) else str(error)
        click.echo(f"trainer: {message}", err=True)
        sys.exit(2)
