"""Make random requests from the table of endpoints."""

from __future__ import annotations

from typing import Annotated, Any, get_origin
from urllib.parse import urlencode

import msgspec
from hypothesis import strategies as st
from yarl import URL

from zmon.schema.api import Endpoint
from zmon.schema.limits import Seconds, Whole

WORDS = st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1, max_size=12)
NAMES = st.from_regex(r"[A-Za-z0-9._-]{1,20}", fullmatch=True).filter(lambda name: name not in (".", ".."))


def _values(endpoint: Endpoint[Any, object], field: msgspec.structs.FieldInfo) -> st.SearchStrategy[Any]:
    if field.type == Whole:
        return st.integers(0, 2**20)
    if field.type == Seconds:
        return st.floats(0, 60)
    has_limits = get_origin(field.type) is Annotated
    if field.name in endpoint.in_path or endpoint.method == "POST" or has_limits:  # the text of a body is made plain
        return NAMES
    if isinstance(field.default, bool):
        return st.booleans()
    if isinstance(field.default, int):
        return st.integers(-1, 2**53)
    if isinstance(field.default, float):
        return st.floats(-1, 0.01)
    if isinstance(field.default, tuple):
        return st.lists(WORDS, max_size=3).map(tuple)
    return WORDS


def requests(endpoint: Endpoint[Any, object]) -> st.SearchStrategy[Any]:
    """Return a strategy for all requests of an endpoint."""
    fields = msgspec.structs.fields(endpoint.request)
    return st.builds(endpoint.request, **{field.name: _values(endpoint, field) for field in fields})


def url_of(endpoint: Endpoint[Any, object], request: Any) -> URL:
    """Return the URL of a request, as clients send it."""
    query = urlencode(endpoint.query_of(request))
    return URL(endpoint.path_of(request) + (f"?{query}" if query else ""), encoded=True)
