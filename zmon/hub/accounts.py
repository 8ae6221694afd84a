"""Where the time of each job went, kept on disk: `accounts/<job_id>.json`, so that it survives the hub.

Written whole and put in its place, every few seconds. A hub that is killed loses nothing: the next one goes on from
what the file says with what the ranks' boxes say.
"""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Iterable
from pathlib import Path

import msgspec

from zmon.job.time_account import Account
from zmon.schema.snapshot import Snapshot

log = logging.getLogger("zmon.hub")

SAVE_SECONDS = 5.0
KEPT_SECONDS = 90 * 86400.0
PRUNE_SECONDS = 3600.0
_SUFFIX = ".json"


class Accounts:
    """By job."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._accounts: dict[str, Account] = {}
        self._written: dict[str, bytes] = {}
        self._saved = time.monotonic()
        self._pruned = -PRUNE_SECONDS
        self.error: str | None = None  # of the last attempt to write

    def of(self, snapshot: Snapshot) -> Account:
        """That of this job; a new one where it has only its id in common with the one that was kept."""
        job_id = snapshot.job_id
        account = self._accounts.get(job_id) or self._read(job_id)
        if account is None or account.is_other_job(snapshot):
            account = Account(job_id)
        self._accounts[job_id] = account
        return account

    def keep(self, job_ids: Iterable[str]) -> None:
        """Write what has changed, and forget the jobs that nobody reports any more. Not more often than it is due."""
        now = time.monotonic()
        if now - self._saved < SAVE_SECONDS:
            return
        self._saved = now
        self.save()
        known = set(job_ids)
        for job_id in self._accounts.keys() - known:
            del self._accounts[job_id]
            self._written.pop(job_id, None)
        if now - self._pruned < PRUNE_SECONDS:
            return
        self._pruned = now
        with contextlib.suppress(OSError):
            for path in self._folder.glob(f"*{_SUFFIX}"):
                if path.stem not in known and time.time() - path.stat().st_mtime > KEPT_SECONDS:
                    path.unlink()

    def save(self) -> None:
        """Write what has changed."""
        error = None
        for job_id, account in self._accounts.items():
            told = msgspec.json.encode(account)
            if told != self._written.get(job_id):
                try:
                    self._write(job_id, told)
                    self._written[job_id] = told
                except OSError as failure:
                    error = f"cannot write {self._path(job_id)}: {failure.strerror}"
        if error and error != self.error:
            log.error("%s; where time went is kept in memory only", error)
        self.error = error

    def _path(self, job_id: str) -> Path:
        return self._folder / f"{job_id}{_SUFFIX}"

    def _write(self, job_id: str, told: bytes) -> None:
        self._folder.mkdir(parents=True, exist_ok=True)
        partial = self._folder / f".{job_id}.partial"
        partial.write_bytes(told)
        partial.replace(self._path(job_id))

    def _read(self, job_id: str) -> Account | None:
        path = self._path(job_id)
        try:
            return msgspec.json.decode(path.read_bytes(), type=Account)
        except FileNotFoundError:
            return None
        except (OSError, msgspec.DecodeError) as error:
            log.error("cannot use %s: %s; where time went is counted from now on", path, error)
            return None
