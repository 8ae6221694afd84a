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


class _Content(msgspec.Struct):
    """The content of the file of a plan, as the probe writes it."""

    schema: int
    run_uid: str
    plan: Plan


class TrainerPlan(NamedTuple):
    """A plan, with the run uid of the rank that wrote it."""

    run_uid: str
    plan: Plan
    digest: bytes  # of the file


class _PlanFile(NamedTuple):
    """The file of a plan as it was read last."""

    stamp: _Stamp
    plan: TrainerPlan | Unknown


class Plans:
    """The plans of all launches on this host."""

    def __init__(self) -> None:
        self._files: dict[str, _PlanFile] = {}  # by path

    @property
    def damaged(self) -> dict[Path, str]:
        """The reason for each file that was set aside."""
        plans = ((path, file.plan) for path, file in self._files.items())
        return {Path(path): plan.reason for path, plan in plans if isinstance(plan, Unknown)}

    def refresh(self, paths: Iterable[str]) -> None:
        """Read the plans that are new or have changed. `paths` are all plans that exist; others are forgotten."""
        earlier, self._files = self._files, {}
        for path in paths:
            stamp, file = _stamp(path), earlier.get(path)
            self._files[path] = file if file and file.stamp == stamp else _PlanFile(stamp, _plan(path))

    def find(self, folder: Path, run_uid: str) -> TrainerPlan | None:
        """Return the plan in a folder of boxes if this run wrote it. A previous run may have left its own there."""
        file = self._files.get(str(folder / PLAN_FILE))
        plan = file and file.plan
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
    """Return the plan in a file; Unknown, with a reason that is logged, if it has none that can be used."""
    try:
        body = _read(path)
        content = msgspec.json.decode(body, type=_Content)
        if content.schema != SCHEMA:
            raise ZmonError(f"its schema is {content.schema}, this zmon reads {SCHEMA}")
        check_plan(content.plan)
    except OSError as error:
        reason = f"cannot read {path}: {error.strerror}"
    except (ZmonError, msgspec.MsgspecError, ValueError, RecursionError) as error:
        reason = f"{path} is not a plan: {error}"
    else:
        return TrainerPlan(content.run_uid, content.plan, blake2b(body, digest_size=8).digest())
    log.warning("%s", reason)
    return Unknown(reason)


def _read(path: str) -> bytes:
    with opened(path) as fd:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            raise ZmonError("it is not a regular file")
        body = os.pread(fd, MAX_PLAN_BYTES + 1, 0)
    if len(body) > MAX_PLAN_BYTES:
        raise ZmonError(f"it is longer than {MAX_PLAN_BYTES:,} bytes")
    return body
