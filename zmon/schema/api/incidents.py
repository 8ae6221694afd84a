"""The hub's answers about incidents."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from zmon.schema.incident import IncidentSummary
from zmon.schema.names import SCHEMA


class IncidentsRequest(msgspec.Struct, frozen=True):
    """`GET /api/v1/incidents`."""


class IncidentList(msgspec.Struct, frozen=True):
    """Every stored incident, newest first."""

    incidents: Sequence[IncidentSummary]
    schema: int = SCHEMA


class IncidentRequest(msgspec.Struct, frozen=True):
    """`GET /api/v1/incidents/{id}` returns the capsule; with `/report.html` appended, its page for people."""

    id: str
