"""Answers with JSON, and the error answer with one line."""

from __future__ import annotations

import logging
from typing import Any

import msgspec
from aiohttp import web

from zmon.format import plain_lines
from zmon.schema.api import Problem

log = logging.getLogger("zmon.web")


class Refusal(Exception):
    """Raised by a handler that refuses a request, with an error status and one line with the reason."""

    def __init__(self, status: int, line: str) -> None:
        super().__init__(line)
        self.status = status


def json_response(value: Any, status: int = 200) -> web.Response:
    """Return a response with `value` as JSON. NaN becomes null, since JSON has no NaN.

    Text is made plain where it enters. Should some text still not be UTF-8, it is replaced here: one wrong byte must
    not hide all other answers.
    """
    try:
        body = msgspec.json.encode(value)
    except UnicodeEncodeError:
        body = msgspec.json.encode(_encodable(msgspec.to_builtins(value, str_keys=True)))
        log.warning("an answer has text that is not UTF-8, which is a defect of zmon: it is replaced")
    return web.Response(body=body, content_type="application/json", status=status)


def _encodable(value: Any) -> Any:
    """Return plain data whose texts can all be encoded."""
    if isinstance(value, str):
        return plain_lines(value)
    if isinstance(value, dict):
        return {_encodable(key): _encodable(item) for key, item in value.items()}
    return [_encodable(item) for item in value] if isinstance(value, list | tuple) else value


def problem(line: str, status: int) -> web.Response:
    """Return an error response: JSON with one line."""
    return json_response(Problem(line), status)
