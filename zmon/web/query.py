"""The decoder of request URLs: it reads a request of `zmon.schema.api` from path and query."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, TypeVar

import msgspec
from aiohttp import web

from zmon.schema.api.endpoint import Endpoint

Request = TypeVar("Request", bound=msgspec.Struct)
_FALSE = ("", "0")


def read_request(endpoint: Endpoint[Request, Any], request: web.Request) -> Request:
    """Return the request in a URL, with defaults for missing parameters. Raises web.HTTPBadRequest with one line."""
    values: dict[str, Any] = {name: request.match_info[name] for name in endpoint.in_path}
    for field in msgspec.structs.fields(endpoint.request):
        name = field.encode_name
        if name not in request.query or field.name in endpoint.in_path:
            continue
        if isinstance(field.default, bool):
            values[field.name] = request.query[name] not in _FALSE
        elif isinstance(field.default, int | float):
            values[field.name] = type(field.default)(_number(request.query, name))
        elif isinstance(field.default, tuple):
            values[field.name] = tuple(request.query.getall(name))
        else:
            values[field.name] = request.query[name]
    return endpoint.request(**values)


def _number(query: Mapping[str, str], name: str) -> float:
    try:
        number = float(query[name])
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise web.HTTPBadRequest(text=f"{name}={query[name]!r} is not a number\n")
    return number
