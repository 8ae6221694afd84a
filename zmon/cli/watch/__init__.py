"""`zmon watch`: run a torch job as `zmon run` does, and report what zmon sees of it.

The main thread starts the command, passes signals on, and waits (`child`). A second thread (`watching`) runs agent and
hub (`observer`), and then makes the card and the folder (`outcome`). A third thread writes to stderr (`messages`).
"""

from __future__ import annotations

import os
import time
from dataclasses import replace
from pathlib import Path

import click

from zmon.box.roots import prepare_root
from zmon.cli.options import notify_file_option
from zmon.cli.watch.child import Child
from zmon.cli.watch.launch import take_lock, this_launch
from zmon.cli.watch.screen import check_terminal, open_output
from zmon.cli.watch.watched_command import Options, WatchedCommand
from zmon.cli.watch.watching import watch
from zmon.errors import BoxUnavailable, UsageError
from zmon.notify import AppriseService, Recipient
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
    help="Fail if a finding of this severity or a worse one opens. See the exit codes.",
)
@notify_file_option("recipients")
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED, metavar="-- CMD…")
def watch_command(
    job_id: str | None,
    labels: tuple[str, ...],
    report: Path | None,
    json_: Path | None,
    quiet: bool,
    top: bool,
    fail_on: str | None,
    recipients: tuple[Recipient, ...] | None,
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
    for recipient in recipients or ():
        AppriseService(recipient)  # before the command starts: a wrong URL is misuse
    options = Options(_check_folder(report), _check_folder(json_), quiet, fail_on=fail_on, recipients=recipients or ())
    _open_standard_files()
    launch = this_launch(os.environ)
    env = {**environment(inherited_environment(), job_id, labels), WATCH: str(launch.number)}
    root: Path | BoxUnavailable
    try:
        root = prepare_root(env)
        if not take_lock(launch, root):
            become_or_exit(command, env, "watch")
    except BoxUnavailable as error:
        root = error
    began = time.time()
    output = None
    if top:
        output, name = open_output()
        options = replace(options, output=name)
    watch(WatchedCommand(command, Child.start(command, env, output), launch, root, began, options))


def _check_folder(path: Path | None) -> Path | None:
    """Return the absolute path of a file to write; raises UsageError if its folder cannot be written to."""
    if path is not None and not os.access(path.absolute().parent, os.W_OK):
        raise UsageError(f"cannot write {path}", "its folder does not exist or is not writable", "Name another one")
    return path and path.absolute()


def _open_standard_files() -> None:
    """Open stdin, stdout and stderr if they are closed, so that no other file of watch gets one of their numbers.

    For the command they stay closed, because exec closes what Python opens.
    """
    while (fd := os.open(os.devnull, os.O_RDWR)) <= 2:
        pass
    os.close(fd)
