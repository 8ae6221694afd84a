"""The hub's answer about its intents and acts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from zmon.schema.act import Intent
from zmon.schema.names import SCHEMA


class IntentsRequest(msgspec.Struct, frozen=True):
    """`GET /api/v1/intents`."""

    job_id: str | None = None  # None: of every job
    limit: int = 200  # the newest ones; negative: all


class IntentScore(msgspec.Struct, frozen=True):
    """The intents of one cause that zmon did not act upon, by what followed, and whether rules about it may act."""

    cause: str
    right: int
    wrong: int
    unclear: int
    open: int  # not known yet
    is_proven: bool  # enough right ones, and none wrong


class IntentList(msgspec.Struct, frozen=True):
    """Intents, newest first, and the score of each cause."""

    intents: Sequence[Intent]
    num_intents: int  # that match the request, also those beyond the limit
    scores: Sequence[IntentScore] = ()
    stops: Mapping[str, str] = {}  # what a person or a breaker has stopped, with the reason
    has_policy: bool = True  # False: the hub runs without --act
    schema: int = SCHEMA
