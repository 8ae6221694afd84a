"""`zmon run`: a torch job, watched without a change to its code."""

from __future__ import annotations

import sys

import click

from zmon.probe.run import become, environment, inherited, refusal


@click.command("run", context_settings={"allow_interspersed_args": False})
@click.option("--job-id", help="What the job is called; else what its launcher says.")
@click.option("--label", "labels", multiple=True, metavar="KEY=VALUE", help="What else to know it by; repeatable.")
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED, metavar="-- CMD…")
def run_command(job_id: str | None, labels: tuple[str, ...], command: tuple[str, ...]) -> None:
    """Run a torch job watched, without a change to its code. The exit code is CMD's."""
    env = environment(inherited(), job_id, labels)
    try:
        become(command, env)
    except OSError as error:
        exit_code, why = refusal(command[0], error)
        click.echo(f"zmon: {why}", err=True)
        sys.exit(exit_code)
