"""`zmon run`: run a torch job under zmon without changing its code."""

from __future__ import annotations

import sys

import click

from zmon.probe.run import become, environment, inherited_environment, refusal


@click.command("run", context_settings={"allow_interspersed_args": False})
@click.option(
    "--job-id",
    metavar="ID",
    help="ID of the job. Default: ZMON_JOB_ID, else the Slurm job ID, else torchrun's --rdzv-id, else, on one node, "
    "script name and start time.",
)
@click.option("--label", "labels", multiple=True, metavar="KEY=VALUE", help="Label of the job. Repeatable.")
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED, metavar="-- CMD…")
def run_command(job_id: str | None, labels: tuple[str, ...], command: tuple[str, ...]) -> None:
    """Run a torch job under zmon, without changing its code.

    zmon is replaced by CMD.

    Exit codes: those of CMD, 2 misuse, 126 CMD is not executable, 127 CMD does not exist.
    """
    env = environment(inherited_environment(), job_id, labels)
    try:
        become(command, env)
    except OSError as error:
        exit_code, why = refusal(command[0], error)
        click.echo(f"zmon: {why}", err=True)
        sys.exit(exit_code)
