"""The notifier of a hub: it takes what the hub knows in each pass, and sends notices in a thread for each recipient."""

from __future__ import annotations

import threading
import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path

from zmon.notify.notices import JobLabels, Notices, act_notice
from zmon.notify.outbox import Outbox, UnsentNotice
from zmon.notify.recipients import Recipient
from zmon.notify.sending import AppriseService
from zmon.schema.act import Intent
from zmon.schema.ended_launch import EndedLaunch
from zmon.schema.finding import Finding

_POLL_SECONDS = 1.0  # between two looks for notices that are due
_CLOSE_POLL_SECONDS = 0.05  # between two looks whether all notices are sent


class Notifier:
    """The notices of one hub. Raises UsageError if apprise does not know the URL of a recipient."""

    def __init__(self, recipients: Sequence[Recipient], path: Path | None = None) -> None:
        """`path`: where notices wait that are not sent yet; None: in memory."""
        self.recipients = recipients
        self._services = {recipient.name: AppriseService(recipient) for recipient in recipients}
        self._outbox = Outbox(path)
        for notice in [notice for notice in self._outbox.pending if notice.recipient not in self._services]:
            self._outbox.drop(notice, "the file of recipients no longer has it")
        self._notices = Notices(self._outbox.open_notices)
        self._news = threading.Condition()  # its lock is that of the outbox
        self._is_closed = False
        for name in self._services:  # a slow one delays no other
            threading.Thread(target=self._run, args=(name,), name=f"notifier {name}", daemon=True).start()

    def update(
        self,
        findings: Iterable[Finding],
        labels: JobLabels,
        ended_jobs: Collection[str],
        ends: Iterable[EndedLaunch],
        now: float,
        acts: Iterable[Intent] = (),
    ) -> None:
        """Take open findings, labels of jobs, the jobs whose launch is over, and the new ends and acts of a pass."""
        notices = [self._notices.record_end(end) for end in ends]
        notices += [act_notice(intent, labels.get(intent.job_id, {})) for intent in acts]
        notices += self._notices.finding_notices(findings, labels, ended_jobs, now)
        with self._news:
            self._outbox.open_notices = self._notices.open_notices
            self._outbox.add(
                UnsentNotice(recipient.name, notice, now)
                for notice in notices
                for recipient in self.recipients
                if recipient.wants(notice)
            )
            self._outbox.save()
            if notices:
                self._news.notify_all()

    def move_times(self, seconds: float) -> None:
        """Move the times since when findings are open, because the clock was moved by these seconds."""
        self._notices.move_times(seconds)

    @property
    def counts(self) -> Mapping[tuple[str, str], int]:
        """The number of notices since the start, by recipient and result: sent, failed, dropped."""
        with self._news:
            return dict(self._outbox.counts)

    @property
    def unsent(self) -> Mapping[str, str]:
        """The reason why the last try failed, by recipient; only those whose notices could not be sent."""
        with self._news:
            return {pending.recipient: pending.reason for pending in reversed(self._outbox.pending) if pending.tries}

    def close(self, seconds: float = 0.0) -> None:
        """Stop. Before that, wait up to this time for notices that are not sent yet."""
        end = time.monotonic() + seconds
        while time.monotonic() < end and self._outbox.pending:
            time.sleep(_CLOSE_POLL_SECONDS)
        with self._news:
            self._is_closed = True
            self._news.notify_all()

    def _run(self, recipient: str) -> None:
        """Send the notices of one recipient, in its thread, until the notifier is closed."""
        while not self._is_closed:
            with self._news:
                unsent = self._outbox.due(recipient, time.time())
                if unsent is None:
                    self._news.wait(_POLL_SECONDS)
                    continue
            reason = self._services[recipient].send(unsent.notice)
            with self._news:
                if unsent not in self._outbox.pending:
                    continue  # it was dropped meanwhile
                if reason:
                    self._outbox.record_failure(unsent, time.time(), reason)
                else:
                    self._outbox.record_sent(unsent)
                self._outbox.save()
