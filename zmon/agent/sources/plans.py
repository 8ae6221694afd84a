"""Read the plans that trainers of this host left beside their boxes, each one when it has changed.

A file that is not a plan is reported and set aside. All sizes in a plan are checked before use.
"""

from __future__ import annotations

import logging
import os
import stat
from collections.abc import Iterable
from hashlib import blake2b
from pathlib import Path
from typing import NamedTuple

import msgspec

from zmon.box.lock import opened
from zmon.errors import ZmonError
from zmon.schema.names import SCHEMA
from zmon.schema.plan import MAX_PLAN_BYTES, PLAN_FILE, Plan, check_plan
from zmon.schema.unknown import Unknown

log = logging.getLogger("zmon.plans")

_Stamp = tuple[int, int, int] | None  # inode, time of change (ctime), size; None: it cannot be read


class _File(msgspec.Struct):
    """The content of a plan file, as the probe writes it."""

    schema: int
    run_uid: str
    plan: Plan


class TrainerPlan(NamedTuple):
    """A plan, with the run uid of the rank that wrote it."""

    run_uid: str
    plan: Plan
    digest: bytes  # of the file


class Plans:
    """The plans of all launches on this host, by the folder of their boxes."""

    def __init__(self) -> None:
        self._plans: dict[str, tuple[_Stamp, TrainerPlan | Unknown]] = {}  # stamp and content of each file, by path

    @property
    def damaged(self) -> dict[Path, str]:
        """The reason for each file that was set aside."""
        return {Path(path): plan.reason for path, (_, plan) in self._plans.items() if isinstance(plan, Unknown)}

    def refresh(self, paths: Iterable[str]) -> None:
        """Read the plans that are new or have changed. `paths` are all plans that exist; others are forgotten."""
        known_plans, self._plans = self._plans, {}
        for path in paths:
            stamp = _stamp(path)
            previous = known_plans.get(path)
            self._plans[path] = previous if previous and previous[0] == stamp else (stamp, _plan(path))

    def find(self, folder: Path, run_uid: str) -> TrainerPlan | None:
        """Return the plan in a folder of boxes if this run wrote it. A previous run may have left its own there."""
        if not self._plans:
            return None
        _, plan = self._plans.get(str(folder / PLAN_FILE), (None, None))
        return plan if isinstance(plan, TrainerPlan) and plan.run_uid == run_uid else None


def plans_version(plans: Iterable[TrainerPlan]) -> str:
    """Return a digest of the plans, the same for the same plans; empty for no plans."""
    digests = sorted(plan.digest for plan in plans)
    return blake2b(b"".join(digests), digest_size=8).hexdigest() if digests else ""


def _stamp(path: str) -> _Stamp:
    try:
        status = Path(path).lstat()
    except OSError:
        return None
    return status.st_ino, status.st_ctime_ns, status.st_size


def _plan(path: str) -> TrainerPlan | Unknown:
    try:
        body = _content(path)
        file = msgspec.json.decode(body, type=_File)
        if file.schema != SCHEMA:
            raise ZmonError(f"its schema is {file.schema}, this zmon reads {SCHEMA}")
        check_plan(file.plan)
    except OSError as error:
        reason = f"cannot read {path}: {error.strerror}"
    except (ZmonError, msgspec.MsgspecError, ValueError, RecursionError) as error:
        reason = f"{path} is not a plan: {error}"
    else:
        return TrainerPlan(file.run_uid, file.plan, blake2b(body, digest_size=8).digest())
    log.warning("%s", reason)
    return Unknown(reason)


def _content(path: str) -> bytes:
    with opened(path) as fd:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            raise ZmonError("it is not a regular file")
        body = os.pread(fd, MAX_PLAN_BYTES + 1, 0)
    if len(body) > MAX_PLAN_BYTES:
        raise ZmonError(f"it is longer than {MAX_PLAN_BYTES:,} bytes")
    return body
