"""What did the trainers of this host predict? Their plans, beside the boxes, each read when it has changed.

One that is no plan is reported and left aside, and nothing in it is trusted for a size.
"""

from __future__ import annotations

import logging
import os
import stat
from collections.abc import Iterable, Iterator
from dataclasses import fields
from hashlib import blake2b
from itertools import chain
from pathlib import Path
from typing import NamedTuple

import msgspec

from zmon.errors import ZmonError
from zmon.schema.names import SCHEMA
from zmon.schema.plan import MOST_AMOUNT, MOST_PLAN_BYTES, PLAN_FILE, Plan

log = logging.getLogger("zmon.plans")

_Stamp = tuple[int, int, int] | None  # inode, when it was changed or its rights were, size; None: it is out of sight


class _File(msgspec.Struct):
    """What the probe writes."""

    schema: int
    run_uid: str
    plan: Plan


class TrainerPlan(NamedTuple):
    """A plan, and the start of the rank that told it."""

    run_uid: str
    plan: Plan
    digest: bytes


class Plans:
    """By the folder of the boxes of one start."""

    def __init__(self) -> None:
        self._read: dict[str, tuple[_Stamp, TrainerPlan | str]] = {}  # by path: as it was, or what is wrong with it

    @property
    def damaged(self) -> dict[Path, str]:
        """What is wrong with each that had to be left aside."""
        return {Path(path): told for path, (_, told) in self._read.items() if isinstance(told, str)}

    def look(self, paths: Iterable[str]) -> None:
        """These are all there are: read those that are new or have changed."""
        before, self._read = self._read, {}
        for path in paths:
            stamp, known = _stamp(path), before.get(path)
            self._read[path] = known if known and known[0] == stamp else (stamp, _told(path))

    def of(self, folder: Path, run_uid: str) -> TrainerPlan | None:
        """What that start of a rank has told, whose box lies there; another's plan may have been left there."""
        if not self._read:
            return None
        _, told = self._read.get(str(folder / PLAN_FILE), (None, None))
        return told if isinstance(told, TrainerPlan) and told.run_uid == run_uid else None


def version(told: Iterable[TrainerPlan]) -> str:
    """The same for the same plans; empty for none."""
    digests = sorted(one.digest for one in told)
    return blake2b(b"".join(digests), digest_size=8).hexdigest() if digests else ""


def left_behind(folder: Path) -> Iterator[Path]:
    """The plan of a folder that has no box any more."""
    if not any(folder.glob("rank-*.box")):
        yield folder / PLAN_FILE
        yield from folder.glob(f".{PLAN_FILE}.*")


def _stamp(path: str) -> _Stamp:
    try:
        found = Path(path).lstat()
    except OSError:
        return None
    return found.st_ino, found.st_ctime_ns, found.st_size


def _told(path: str) -> TrainerPlan | str:
    try:
        body = _content(path)
        file = msgspec.json.decode(body, type=_File)
        if file.schema != SCHEMA:
            raise ZmonError(f"it has schema {file.schema}")
        _check(file.plan)
    except OSError as error:
        why = f"cannot read {path}: {error.strerror}"
    except (ZmonError, msgspec.MsgspecError, ValueError, RecursionError) as error:
        why = f"{path} is no plan: {error}"
    else:
        return TrainerPlan(file.run_uid, file.plan, blake2b(body, digest_size=8).digest())
    log.warning("%s", why)
    return why


def _content(path: str) -> bytes:
    fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            raise ZmonError("it is no file")
        body = os.pread(fd, MOST_PLAN_BYTES + 1, 0)
    finally:
        os.close(fd)
    if len(body) > MOST_PLAN_BYTES:
        raise ZmonError(f"it is longer than {MOST_PLAN_BYTES:,} bytes")
    return body


def _check(plan: Plan) -> None:
    """Raises ZmonError where its columns do not fit each other, or an amount is none."""
    columns = {field.name: getattr(plan, field.name) for field in fields(plan) if field.name != "totals"}
    if len({len(column) for column in columns.values()}) != 1:
        raise ZmonError("its columns are not of the same length")
    names = columns.pop("tables")
    if any(number is not None and not 0 <= number <= MOST_AMOUNT for number in chain(*columns.values())):
        raise ZmonError("one of its amounts is none")
    if any(not name.isprintable() for name in chain(*names)):
        raise ZmonError("one of its names is none")
