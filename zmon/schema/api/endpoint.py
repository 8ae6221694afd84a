"""An endpoint: its path, its request, its answer, who may ask, and the answer to a request that failed."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from typing import Any, Generic, Literal, TypeVar
from urllib.parse import quote

import msgspec

from zmon.schema.names import SCHEMA

Request = TypeVar("Request", bound=msgspec.Struct)
Answer = TypeVar("Answer", covariant=True)
MAX_REQUEST_BYTES = 4096  # of the body of a POST
MAX_ANSWER_BYTES = 32 << 20  # the report of 512 ranks with the records of 16 steps has 11 MiB
Role = Literal[  # what a client of a daemon may do
    "metrics",  # read /metrics, as Prometheus does
    "read",  # read status, findings and reports, without what jobs print
    "evidence",  # read stacks, stderr and whole incidents
    "actions",  # ask for acts on ranks and launchers, which end processes
]
# The roles of a user whose roles are not in the file. Evidence has what jobs print, so it is given by name only.
DEFAULT_ROLES: frozenset[Role] = frozenset(("metrics", "read"))
_PLACEHOLDER = re.compile(r"\{(\w+)\}")


@dataclass(frozen=True)
class Endpoint(Generic[Request, Answer]):
    """One request to a daemon.

    Fields of `request` that `path` names are part of the path, the others of the query. The request of a POST is the
    JSON in its body.
    """

    daemon: str  # "agent" or "hub"
    path: str  # /api/v1/jobs/{job_id}/ranks
    request: type[Request]
    answer: type[Answer]
    summary: str
    max_bytes: int = MAX_ANSWER_BYTES  # a client reads no longer answer
    role: Role = "read"  # of whoever may ask
    method: Literal["GET", "POST"] = "GET"  # POST: it changes something

    @property
    def in_path(self) -> tuple[str, ...]:
        """The fields of the request that are part of the path."""
        return tuple(_PLACEHOLDER.findall(self.path))

    def path_of(self, request: Request) -> str:
        """Return the path of one request, quoted."""
        return _PLACEHOLDER.sub(lambda name: quote(str(getattr(request, name[1])), safe=""), self.path)

    def query_of(self, request: Request) -> list[tuple[str, str]]:
        """Return the query of one request. A field that is None or has its default value is left out."""
        if self.method == "POST":
            return []
        pairs: list[tuple[str, str]] = []
        for field in _fields_of_query(self):
            value = getattr(request, field.name)
            if value is not None and value != field.default:
                values = value if isinstance(value, tuple) else (value,)
                pairs += [(field.encode_name, str(int(v) if isinstance(v, bool) else v)) for v in values]
        return pairs


class Problem(msgspec.Struct, frozen=True):
    """The reason why a request failed, in one line."""

    error: str
    schema: int = SCHEMA


@cache
def _fields_of_query(endpoint: Endpoint[Any, Any]) -> tuple[msgspec.structs.FieldInfo, ...]:
    return tuple(field for field in msgspec.structs.fields(endpoint.request) if field.name not in endpoint.in_path)
