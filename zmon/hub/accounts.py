"""The time accounts of all jobs, on disk as `accounts/<job_id>.json`.

The hub writes each changed account every few seconds. The next hub continues from the file, and the ranks' boxes have
the time since then. The counters in /metrics show the accounts on disk, so that no counter falls if the hub is killed:
Prometheus takes a lower value for a counter that began again at 0, and would count the time twice. While the disk is
full, the counters stand still.
"""

from __future__ import annotations

import copy
import time
from collections.abc import Iterable
from pathlib import Path

import msgspec

from zmon.hub.json_folder import SAVE_SECONDS, JsonFolder
from zmon.job.time_account import Account
from zmon.schema.job_snapshot import Snapshot
from zmon.steplog.files import SteadyClock

MAX_AGE_SECONDS = 90 * 86400.0  # at this age the file of a job that no agent reports is deleted


class Accounts(JsonFolder[Account]):
    """The accounts of this hub's jobs, by job id."""

    def __init__(self, folder: Path, clock: SteadyClock | None = None) -> None:
        super().__init__(
            folder,
            msgspec.json.Decoder(Account).decode,
            if_unusable="the time account of the job starts anew",
            if_unwritten="the time accounts are kept in memory only",
            clock=clock,
        )
        self._accounts: dict[str, Account] = {}
        self._written: dict[str, bytes] = {}  # the JSON that was last given to `put`, also if it is not on disk yet
        self._on_disk: dict[str, Account] = {}  # copies of the accounts as the files have them
        self._saved_at = time.monotonic()

    def account_of(self, snapshot: Snapshot) -> Account:
        """Return the account of this job. A job that only reuses the id of an earlier one gets a new account."""
        job_id = snapshot.job_id
        account = self._accounts.get(job_id)
        if account is None and (account := self.get(job_id)) is not None:
            self._on_disk[job_id] = copy.deepcopy(account)
        if account is None or account.is_other_job(snapshot):
            account = Account(job_id)
            self._on_disk.pop(job_id, None)
            self._written.pop(job_id, None)
        self._accounts[job_id] = account
        return account

    def on_disk(self, job_id: str) -> Account | None:
        """Return the account as the next hub would read it; None if it is not written yet."""
        return self._on_disk.get(job_id)

    def maintain(self, job_ids: Iterable[str]) -> None:
        """Save accounts at intervals, new ones at once; forget jobs that are not among `job_ids`; prune old files."""
        now = time.monotonic()
        if now - self._saved_at < SAVE_SECONDS:
            for job_id in self._accounts.keys() - self._written.keys():
                self._save(job_id)
            return
        self._saved_at = now
        self.save()
        reported = set(job_ids)
        for job_id in self._accounts.keys() - reported - self.unwritten.keys():
            del self._accounts[job_id]
            self._written.pop(job_id, None)
            self._on_disk.pop(job_id, None)
        oldest = time.time() - MAX_AGE_SECONDS
        self.prune(now, lambda job_id: job_id not in reported and self.path(job_id).stat().st_mtime < oldest)

    def save(self) -> None:
        """Write the accounts that have changed since they were last written."""
        for job_id in self._accounts:
            self._save(job_id)

    def _save(self, job_id: str) -> None:
        account = self._accounts[job_id]
        data = msgspec.json.encode(account)
        if data != self._written.get(job_id) or job_id in self.unwritten:
            self._written[job_id] = data
            self.put(job_id, account)
            if job_id not in self.unwritten:
                self._on_disk[job_id] = copy.deepcopy(account)
