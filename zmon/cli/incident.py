"""`zmon incident`: what happened, and which hosts it happens on again and again."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import aiohttp
import click
import msgspec
from rich.console import Console

from zmon.cli.options import HUB_URL, data_dir_option, stack_url
from zmon.cli.render import incident as render
from zmon.errors import NotServed, Unreachable, UsageError
from zmon.hub.incidents import Folder
from zmon.hub.incidents.folder import REPORT
from zmon.hub.incidents.offenders import by_host
from zmon.schema.api import Endpoint, IncidentRequest, IncidentsRequest, endpoints
from zmon.schema.incident import Brief, Capsule
from zmon.web import client

T = TypeVar("T")
Request = TypeVar("Request", bound=msgspec.Struct)
_SECONDS = 5.0
_NAMED = 8


@dataclass(frozen=True)
class _Hub:
    """Incidents as the hub tells them."""

    url: str

    def briefs(self) -> list[Brief]:
        """Newest first. Raises Unreachable."""
        return [*_ask(self.url, endpoints.INCIDENTS, IncidentsRequest()).incidents]

    def one(self, brief: Brief) -> tuple[Capsule, str]:
        """All of it, and where a person finds it."""
        request = IncidentRequest(brief.id)
        url = self.url + endpoints.INCIDENT.path_of(request)
        return _ask(self.url, endpoints.INCIDENT, request), f"{url}/{REPORT}, on the hub's machine in {brief.path}"


@dataclass(frozen=True)
class _Disk:
    """The same from the data directory, where no hub answers."""

    folder: Folder

    def briefs(self) -> list[Brief]:
        """Newest first."""
        return self.folder.briefs()

    def one(self, brief: Brief) -> tuple[Capsule, str]:
        """All of it, and where a person finds it. Raises UsageError."""
        capsule = self.folder.read(brief.id)
        if capsule is None:
            raise UsageError(f"cannot read the capsule of {brief.id}", f"capsule.json in {brief.path} is damaged")
        return capsule, f"{brief.path}/{REPORT}"


@click.command()
@click.argument("incident_id", metavar="[ID]", required=False)
@click.option("--by", type=click.Choice(["host"]), help="Sum them up: repeat offenders, the worst first.")
@data_dir_option
@click.option("--hub", envvar="ZMON_HUB_URL", help="Base URL of the hub.")
@click.option("--json", "as_json", is_flag=True)
def incident(incident_id: str | None, by: str | None, data_dir: Path, hub: str | None, as_json: bool) -> None:
    """What was kept of an incident, or without ID their list. Reads --data-dir where no hub answers."""
    if incident_id and by:
        raise UsageError(f"cannot sum up {incident_id} by {by}", "it is one incident", "leave out the ID or --by")
    source, briefs, said = _source(hub, data_dir)
    console = Console(soft_wrap=False)
    click.echo(f"zmon: {said}", err=True)
    if incident_id:
        capsule, where = source.one(_chosen(incident_id, briefs))
        if as_json:
            click.echo(msgspec.json.encode(capsule).decode())
        else:
            console.print(render.incident(capsule, where))
    elif by:
        hosts = by_host(briefs)
        if as_json:
            click.echo(msgspec.json.encode({"schema": 1, "hosts": hosts}).decode())
        else:
            console.print(render.offenders(hosts))
    elif as_json:
        click.echo(msgspec.json.encode({"schema": 1, "incidents": briefs}).decode())
    else:
        console.print(render.incidents(briefs))


def _source(hub: str | None, data_dir: Path) -> tuple[_Hub | _Disk, list[Brief], str]:
    """Where incidents are read from, all of them, and that place in words."""
    url = (hub or stack_url(data_dir, "hub") or HUB_URL).rstrip("/")
    try:
        return (asked := _Hub(url)), asked.briefs(), f"from the hub at {url}"
    except (Unreachable, NotServed) as error:
        read = _Disk(Folder(data_dir))
        return read, read.briefs(), f"{error}; read from {read.folder.root} instead"


def _chosen(incident_id: str, briefs: Sequence[Brief]) -> Brief:
    """That one, or the only one whose id begins so. Raises UsageError."""
    found = [b for b in briefs if b.id == incident_id] or [b for b in briefs if b.id.startswith(incident_id)]
    if len(found) == 1:
        return found[0]
    there = ", ".join(brief.id for brief in (found or briefs)[:_NAMED]) or "none at all"
    why = "several begin so" if found else "there is none of that id"
    raise UsageError(f"cannot show {incident_id[:80]!r}", why, f"There are {there}")


def _ask(hub: str, endpoint: Endpoint[Request, T], request: Request) -> T:
    async def ask() -> T:
        async with aiohttp.ClientSession() as session:
            return await client.ask(session, hub, endpoint, request, _SECONDS)

    return asyncio.run(ask())
