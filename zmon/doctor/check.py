"""The result of one check of `zmon doctor`."""

from __future__ import annotations

import msgspec

from zmon.errors import Forbidden, Unreachable

TIMEOUT_SECONDS = 3.0  # a daemon that takes longer for one answer does not do its work in time either


class Check(msgspec.Struct, frozen=True):
    """The result of one check.

    `armed` is True if the thing works, False if it is inert, and None if there is nothing to watch or its state is not
    known, as shortly after a start.
    """

    name: str
    armed: bool | None
    result: str = msgspec.field(name="found")  # `found` in JSON; a sentence without its subject, which is `name`
    next_step: str = ""


def unreadable(name: str, error: Unreachable) -> Check:
    """Return the check of a part that cannot be read: unknown if a right is missing, else inert."""
    return Check(name, None if isinstance(error, Forbidden) else False, f"unknown: {error}")
