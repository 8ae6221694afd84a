"""`zmon watch`: run a torch job as `zmon run` does, and say what zmon sees of it.

The command starts first. `child` passes signals on and waits, `observer` runs agent and hub in a thread, `messages`
writes to stderr, and `ending` makes the card and the folder.
"""

from __future__ import annotations

import os
import sys
import time
from importlib.util import find_spec
from pathlib import Path

import click

from zmon.box.roots import prepare_root
from zmon.cli.watch.child import Child
from zmon.cli.watch.launch import is_first, path_of_command, this_launch
from zmon.cli.watch.screen import check_terminal, open_output
from zmon.cli.watch.watching import Options, WatchedCommand, watch
from zmon.errors import BoxUnavailable
from zmon.probe.launch import WATCH
from zmon.probe.run import JOB_ID_HELP, LABEL_HELP, become_or_exit, environment, inherited_environment

_FILE = click.Path(path_type=Path, dir_okay=False)


@click.command("watch", context_settings={"allow_interspersed_args": False})
@click.option("--job-id", metavar="ID", help=JOB_ID_HELP)
@click.option("--label", "labels", multiple=True, metavar="KEY=VALUE", help=LABEL_HELP)
@click.option(
    "--report",
    type=_FILE,
    help="Path of a file to write the report to as well. The folder zmon-JOB in the working directory has one.",
)
@click.option("--json", "json_", type=_FILE, help="Path of a file to write the card, the job and its findings to.")
@click.option("--quiet", is_flag=True, help="Write nothing to stderr.")
@click.option(
    "--top",
    is_flag=True,
    help="Show the screen of zmon top. The output of CMD goes to the file zmon-output-PID.log meanwhile. q closes the "
    "screen, and CMD runs on.",
)
@click.option(
    "--fail-on",
    type=click.Choice(["info", "warning", "critical"]),
    help="Severity of a finding that is a failure, as a worse one is. See the exit codes.",
)
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED, metavar="-- CMD…")
def watch_command(
    job_id: str | None,
    labels: tuple[str, ...],
    report: Path | None,
    json_: Path | None,
    quiet: bool,
    top: bool,
    fail_on: str | None,
    command: tuple[str, ...],
) -> None:
    """Run a torch job and say what zmon sees of it.

    Findings go to stderr as they come, and at the end a card: how the job ended and why, where its time went, and what
    to do next. The folder zmon-JOB in the working directory has a report and the steps. No agent, hub or Prometheus
    needs to run.

    Exit codes: those of CMD, 2 misuse, 126 CMD is not executable, 127 CMD does not exist. With --fail-on, if that of
    CMD is 0: 1 if such a finding opened, 3 if nothing was watched.
    """
    if top:
        check_terminal()
    launch = this_launch(os.environ)
    env = {**environment(inherited_environment(), job_id, labels), WATCH: str(launch.number)}
    if "PATH" in env and env.get("VIRTUAL_ENV") != sys.prefix:
        env["PATH"] = path_of_command(env["PATH"], str(Path(sys.executable).parent), find_spec("torch") is not None)
    root = _root(env)
    if root is not None and not is_first(launch, root):
        become_or_exit(command, env, "watch")
    began = time.time()
    output, output_name = open_output() if top else (None, "")
    options = Options(report and report.absolute(), json_ and json_.absolute(), quiet, output_name, fail_on)
    watch(WatchedCommand(command, Child.start(command, env, output), launch, root, began, options))


def _root(env: dict[str, str]) -> Path | None:
    """Return the folder of this user's boxes; None if there can be none, as the probe says in each rank."""
    try:
        return prepare_root(env)
    except BoxUnavailable:
        return None
