"""`zmon watch`: run a torch job as `zmon run` does, and say what zmon sees of it.

The command starts first. `child` passes signals on and waits, `observer` runs agent and hub in a thread, `messages`
writes to stderr, and `ending` makes the card and the folder.
"""

from __future__ import annotations

import os
import time
from pathlib import Path

import click

from zmon.box.roots import prepare_root
from zmon.cli.watch.child import Child
from zmon.cli.watch.launch import is_first, this_launch
from zmon.cli.watch.watching import Run, watch
from zmon.errors import BoxUnavailable
from zmon.probe.launch import WATCH
from zmon.probe.run import JOB_ID_HELP, LABEL_HELP, become_or_exit, environment, inherited_environment


@click.command("watch", context_settings={"allow_interspersed_args": False})
@click.option("--job-id", metavar="ID", help=JOB_ID_HELP)
@click.option("--label", "labels", multiple=True, metavar="KEY=VALUE", help=LABEL_HELP)
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED, metavar="-- CMD…")
def watch_command(job_id: str | None, labels: tuple[str, ...], command: tuple[str, ...]) -> None:
    """Run a torch job and say what zmon sees of it.

    Findings go to stderr as they come, and at the end a card: how the job ended and why, where its time went, and what
    to do next. No agent, hub or Prometheus needs to run.

    Exit codes: those of CMD, 2 misuse, 126 CMD is not executable, 127 CMD does not exist.
    """
    launch = this_launch(os.environ)
    env = {**environment(inherited_environment(), job_id, labels), WATCH: launch.variable}
    root = _root(env)
    if root is not None and not is_first(launch, root):
        become_or_exit(command, env, "watch")
    began = time.time()
    watch(Run(command, Child.start(command, env), launch, root, began))


def _root(env: dict[str, str]) -> Path | None:
    """Return the folder of this user's boxes; None if there can be none, as the probe says in each rank."""
    try:
        return prepare_root(env)
    except BoxUnavailable:
        return None
