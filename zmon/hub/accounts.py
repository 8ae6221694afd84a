"""The time accounts of all jobs, on disk as `accounts/<job_id>.json`.

Every few seconds each changed account is written to a new file, which replaces the old one. A hub that is killed loses
nothing: the next hub continues from the file, and the ranks' boxes have the time since then.
"""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Iterable
from pathlib import Path

import msgspec

from zmon.hub.write_errors import WriteErrors
from zmon.job.time_account import Account
from zmon.schema.job_snapshot import Snapshot
from zmon.steplog.files import SteadyClock, child_path, replace_file

log = logging.getLogger("zmon.hub")

SAVE_SECONDS = 5.0
MAX_AGE_SECONDS = 90 * 86400.0  # at this age the file of a job that no agent reports is deleted
PRUNE_SECONDS = 3600.0
_SUFFIX = ".json"


class Accounts:
    """The accounts of this hub's jobs, by job id."""

    def __init__(self, folder: Path, clock: SteadyClock | None = None) -> None:
        self._folder = folder
        self._accounts: dict[str, Account] = {}
        self._written: dict[str, bytes] = {}
        self._saved_at = time.monotonic()
        self._pruned_at = -PRUNE_SECONDS
        self._clock = clock or SteadyClock()
        self.errors = WriteErrors(log, "the time accounts are kept in memory only")

    @property
    def error(self) -> str | None:
        """The reason why the time accounts cannot be written, or None."""
        return self.errors.error

    def account_of(self, snapshot: Snapshot) -> Account:
        """Return the account of this job. A job that only reuses the id of an earlier one gets a new account."""
        job_id = snapshot.job_id
        account = self._accounts.get(job_id) or self._read(job_id)
        if account is None or account.is_other_job(snapshot):
            account = Account(job_id)
        self._accounts[job_id] = account
        return account

    def maintain(self, job_ids: Iterable[str]) -> None:
        """Save the accounts, forget jobs that are not among `job_ids`, and prune old files; each when it is due."""
        now = time.monotonic()
        if now - self._saved_at < SAVE_SECONDS:
            return
        self._saved_at = now
        self.save()
        reported = set(job_ids)
        for job_id in self._accounts.keys() - reported:
            del self._accounts[job_id]
            self._written.pop(job_id, None)
        steady = self._clock.is_steady()
        if now - self._pruned_at < PRUNE_SECONDS or not steady:
            return
        self._pruned_at = now
        with contextlib.suppress(OSError):
            for path in self._folder.glob(f"*{_SUFFIX}"):
                if path.stem not in reported and time.time() - path.stat().st_mtime > MAX_AGE_SECONDS:
                    path.unlink()

    def save(self) -> None:
        """Write the accounts that have changed since they were last written."""
        for job_id, account in self._accounts.items():
            data = msgspec.json.encode(account)
            if data != self._written.get(job_id):
                with self.errors.watched(self._path(job_id)):
                    replace_file(self._path(job_id), [data], sync=False)
                    self._written[job_id] = data
                if self.errors.error:
                    return  # the others would fail as well; all are tried again in some seconds

    def _path(self, job_id: str) -> Path:
        return child_path(self._folder, job_id, _SUFFIX)

    def _read(self, job_id: str) -> Account | None:
        path = self._path(job_id)
        try:
            return msgspec.json.decode(path.read_bytes(), type=Account)
        except FileNotFoundError:
            return None
        except (OSError, msgspec.DecodeError) as error:
            log.error("cannot use %s: %s; the time account of the job starts anew", path, error)
            return None
