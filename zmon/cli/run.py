"""`zmon run`: run a torch job under zmon without changing its code."""

from __future__ import annotations

import click

from zmon.probe.run import JOB_ID_HELP, LABEL_HELP, run


@click.command("run", context_settings={"allow_interspersed_args": False})
@click.option("--job-id", metavar="ID", help=JOB_ID_HELP)
@click.option("--label", "labels", multiple=True, metavar="KEY=VALUE", help=LABEL_HELP)
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED, metavar="-- CMD…")
def run_command(job_id: str | None, labels: tuple[str, ...], command: tuple[str, ...]) -> None:
    """Run a torch job under zmon, without changing its code.

    zmon is replaced by CMD.

    Exit codes: those of CMD, 2 misuse, 126 CMD is not executable, 127 CMD does not exist.
    """
    run(command, job_id, labels)
