"""What the hub answers about incidents."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from zmon.schema.incident import Brief
from zmon.schema.names import SCHEMA


class IncidentsRequest(msgspec.Struct, frozen=True):
    """`GET /api/v1/incidents`."""


class IncidentList(msgspec.Struct, frozen=True):
    """Every incident that is kept, newest first."""

    incidents: Sequence[Brief]
    schema: int = SCHEMA


class IncidentRequest(msgspec.Struct, frozen=True):
    """`GET /api/v1/incidents/{id}`: its capsule. With `/report.html` behind it: the page for people."""

    id: str
