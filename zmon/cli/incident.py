"""`zmon incident`: show an incident, list all incidents, or count them by host."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import NamedTuple

import click

from zmon.cli.completion import incident_ids
from zmon.cli.options import HubOptions, hub_options, json_option
from zmon.cli.render import incident as render
from zmon.cli.render import show
from zmon.cli.render.offenders import by_host, offenders_table
from zmon.client import Hub
from zmon.errors import Unreachable, UsageError
from zmon.hub.incidents import CapsuleStore
from zmon.hub.incidents.capsule_store import REPORT
from zmon.schema.api import IncidentRequest, endpoints
from zmon.schema.incident import Capsule, IncidentSummary

_MAX_LISTED = 8  # IDs in an error line
_MAX_ID = 80  # characters of a wrong ID in an error line


@click.command()
@click.argument("incident_id", metavar="[ID]", required=False, shell_complete=incident_ids)
@click.option("--by", type=click.Choice(["host"]), help="Count incidents by host, the worst host first.")
@hub_options
@json_option
def incident(incident_id: str | None, by: str | None, hub: HubOptions, as_json: bool) -> None:
    """Show the incident with this ID, or list all incidents.

    The beginning of an ID is enough. If no hub answers, incidents are read from --data-dir.

    Exit codes: 0 shown, 1 the hub stopped answering, 2 misuse (such as an unknown ID).
    """
    if incident_id and by:
        raise UsageError(f"cannot count {incident_id} by {by}", "it is a single incident", "Leave out the ID or --by")
    incidents = _all_incidents(hub)
    click.echo(f"zmon: {incidents.origin}", err=True)
    if incident_id:
        capsule, report_location = incidents.read(_matching(incident_id, incidents.summaries))
        show(as_json, capsule, render.incident(capsule, report_location))
    elif by:
        hosts = by_host(incidents.summaries)
        show(as_json, {"schema": 1, "hosts": hosts}, offenders_table(hosts))
    else:
        show(as_json, {"schema": 1, "incidents": incidents.summaries}, render.incidents(incidents.summaries))


class _Incidents(NamedTuple):
    """All incidents, and the place that they come from."""

    summaries: list[IncidentSummary]  # newest first
    read: Callable[[IncidentSummary], tuple[Capsule, str]]  # returns the capsule and the location of the report
    origin: str  # the place, for a message


def _all_incidents(hub: HubOptions) -> _Incidents:
    """Return the incidents of the hub, or those of the data directory if no hub answers."""
    client = Hub(hub.url, http=hub.http)
    stored = CapsuleStore(hub.data_dir)

    def from_hub(summary: IncidentSummary) -> tuple[Capsule, str]:
        page = f"{client.url}{endpoints.INCIDENT.path_of(IncidentRequest(summary.id))}/{REPORT}"
        return client.incident(summary.id), f"{page}, on the hub's machine in {summary.path}"

    def from_disk(summary: IncidentSummary) -> tuple[Capsule, str]:
        capsule = stored.read(summary.id)
        if capsule is None:
            next_step = f"Open {summary.path}/{REPORT}, which shows the incident as well"
            why = f"capsule.json in {summary.path} is damaged"
            raise UsageError(f"cannot read the capsule of {summary.id}", why, next_step)
        return capsule, f"{summary.path}/{REPORT}"

    try:
        return _Incidents([*client.incidents().incidents], from_hub, f"from the hub at {client.url}")
    except Unreachable as error:
        try:
            os.listdir(stored.root)  # noqa: PTH208 - a folder that cannot be read would look empty
        except FileNotFoundError:
            pass  # no hub has run here
        except OSError as refusal:
            why = refusal.strerror or str(refusal)
            raise UsageError(f"{error}; cannot read {stored.root}", why, "Run zmon as the user of the hub") from error
        return _Incidents(stored.summaries(), from_disk, f"{error}; read from {stored.root} instead")


def _matching(incident_id: str, summaries: Sequence[IncidentSummary]) -> IncidentSummary:
    """Return the incident with this ID, or the only one whose ID starts with it. Raises UsageError."""
    matches = [s for s in summaries if s.id == incident_id] or [s for s in summaries if s.id.startswith(incident_id)]
    if len(matches) == 1:
        return matches[0]
    ids = ", ".join(summary.id for summary in (matches or summaries)[:_MAX_LISTED])
    why = "several IDs start with it" if matches else "no incident has this ID"
    next_step = f"Choose from {ids}" if ids else "There are no incidents"
    raise UsageError(f"cannot show {incident_id[:_MAX_ID]!r}", why, next_step)
