"""`zmon act`: show the intents of the hub and their score, stop all acts at once, and remove a stop."""

from __future__ import annotations

import getpass
import os
from pathlib import Path

import click

from zmon.act_stops import ALL, reset, stop, stops
from zmon.cli.options import HubOptions, data_dir_option, hub_options, json_option
from zmon.cli.render import show
from zmon.cli.render.records import intents_text, score_text
from zmon.client import Hub
from zmon.errors import UsageError


@click.group()
def act() -> None:
    """Show what zmon does, or would do, about findings. Stop its acts.

    A hub acts only if it runs with --act, and asks agents that run with --allow-actions.
    """


@act.command()
@hub_options
@json_option
def score(hub: HubOptions, as_json: bool) -> None:
    """Show for each cause how often an intent was right, by what followed it.

    Exit codes: 0 shown, 1 the hub does not answer, 2 misuse.
    """
    answer = Hub(hub.url, http=hub.http).intents(limit=0)
    show(as_json, answer, score_text(answer))


@act.command("list")
@click.argument("job_id", metavar="[JOB]", required=False)
@click.option("--limit", type=click.IntRange(1), default=20, show_default=True, help="Number of intents to show.")
@hub_options
@json_option
def list_intents(job_id: str | None, limit: int, hub: HubOptions, as_json: bool) -> None:
    """List intents about all jobs, or about JOB, the newest first: observed, refused or acted, and what followed.

    Exit codes: 0 listed, 1 the hub does not answer, 2 misuse.
    """
    answer = Hub(hub.url, http=hub.http).intents(job_id, limit=limit)
    show(as_json, answer, intents_text(answer, job_id))


@act.command("stop")
@click.argument("reason")
@data_dir_option
def stop_acts(reason: str, data_dir: Path) -> None:
    """Stop all acts of the hub and of the agent with this --data-dir at once, until zmon act reset.

    Exit codes: 0 stopped, 2 misuse.
    """
    try:
        stop(data_dir, ALL, reason, _user())
    except OSError as error:
        raise _not_written(data_dir, error) from error
    click.echo(f"acts are stopped in {data_dir}; zmon act reset lets them go on")


@act.command("reset")
@click.argument("name", default=ALL)
@data_dir_option
def reset_stop(name: str, data_dir: Path) -> None:
    """Remove a stop: `all`, or the NAME that zmon act score shows, such as rule-frozen.

    Find out first why it is there. zmon stops all acts if many jobs have faults at once. It stops a rule if an act of
    the rule did not help.

    Exit codes: 0 removed, 2 there is no such stop, or it cannot be removed.
    """
    all_stops = stops(data_dir)
    if name not in all_stops:
        why = f"the stops are {', '.join(all_stops)}" if all_stops else f"nothing is stopped in {data_dir}"
        raise UsageError(f"there is no stop {name}", why, "Give the --data-dir of the hub or of the agent")
    try:
        reset(data_dir, name)
    except OSError as error:
        raise _not_written(data_dir, error) from error
    still = f". All acts are still stopped: {all_stops[ALL].reason}" if name != ALL and ALL in all_stops else ""
    click.echo(f"removed the stop {name} of {all_stops[name].by}: {all_stops[name].reason}{still}")


def _user() -> str:
    """Return the name of the user, or the uid if the user has no name, as in a container."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # OSError since Python 3.13
        return f"uid {os.getuid()}"


def _not_written(data_dir: Path, error: OSError) -> UsageError:
    """Return the error that is raised if a stop cannot be written or removed."""
    return UsageError(f"cannot write to {data_dir}", error.strerror or str(error), "Run it as the user of the daemon")
