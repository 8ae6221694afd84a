"""The notices that are not sent yet, on disk, so that a restarted hub sends them. The file has no URLs.

A notice is removed once it is sent. A hub that ends between the two sends it again after its restart.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path

import msgspec

from zmon.notify.notices import Notice, OpenNotice
from zmon.steplog.files import replace_file

log = logging.getLogger("zmon.notify")

FILE = "notices.json"  # name of the file in the data directory
MAX_PENDING = 500  # beyond it the oldest ones are dropped
GIVE_UP_SECONDS = 86400.0  # older news is of no use
_FIRST_WAIT_SECONDS = 5.0  # after a failure; the wait doubles with each further one
_LONGEST_WAIT_SECONDS = 600.0


class UnsentNotice(msgspec.Struct, frozen=True):
    """A notice for one recipient."""

    recipient: str
    notice: Notice
    made: float  # unix seconds
    tries: int = 0
    due: float = 0.0  # unix seconds of the next try
    reason: str = ""  # why the last try failed

    def after_failure(self, now: float, reason: str) -> UnsentNotice:
        """Return the notice with one more failed try, and a time for the next one."""
        wait = min(_FIRST_WAIT_SECONDS * 2**self.tries, _LONGEST_WAIT_SECONDS)
        return msgspec.structs.replace(self, tries=self.tries + 1, due=now + wait, reason=reason)


class _State(msgspec.Struct, frozen=True):
    """The content of the file."""

    pending: tuple[UnsentNotice, ...] = ()
    open_notices: Mapping[str, OpenNotice] = {}  # of `Notices`


class Outbox:
    """The pending notices, oldest first, and what was told about findings that are open."""

    def __init__(self, path: Path | None) -> None:
        """`path` None: in memory only."""
        self._path = path
        state = _State()
        if path is not None and path.exists():
            try:
                state = msgspec.json.decode(path.read_bytes(), type=_State)
            except (OSError, msgspec.DecodeError) as error:
                log.warning("cannot use %s (%s): notices that were not sent are lost", path, error)
        self.pending = list(state.pending)
        self.open_notices = dict(state.open_notices)
        self.counts: Counter[tuple[str, str]] = Counter()  # notices by recipient and result: sent, failed, dropped
        self._written = state

    def add(self, notices: Iterable[UnsentNotice]) -> None:
        """Add notices, each once for each recipient."""
        known = {(pending.recipient, pending.notice.id) for pending in self.pending}
        self.pending += [new for new in notices if (new.recipient, new.notice.id) not in known]
        for old in self.pending[:-MAX_PENDING]:
            self.drop(old, "too many notices are pending")

    def due(self, recipient: str, now: float) -> UnsentNotice | None:
        """Return the oldest notice of a recipient if it is due. The others wait behind it, in their order."""
        oldest = next((pending for pending in self.pending if pending.recipient == recipient), None)
        if oldest is None or oldest.due <= now:
            return oldest
        return oldest if oldest.due - now > _LONGEST_WAIT_SECONDS else None  # the clock was set back

    def record_sent(self, pending: UnsentNotice) -> None:
        """Remove a notice that was sent."""
        self.pending.remove(pending)
        self.counts[pending.recipient, "sent"] += 1

    def record_failure(self, pending: UnsentNotice, now: float, reason: str) -> None:
        """Plan the next try; drop the notice if it could not be sent for a day."""
        self.counts[pending.recipient, "failed"] += 1
        if now - pending.made > GIVE_UP_SECONDS:
            self.drop(pending, reason)
            return
        if not pending.tries:
            log.warning("cannot send a notice to %s: %s; it is tried again", pending.recipient, reason)
        self.pending[self.pending.index(pending)] = pending.after_failure(now, reason)

    def drop(self, pending: UnsentNotice, reason: str) -> None:
        """Forget a notice that was not sent."""
        self.pending.remove(pending)
        self.counts[pending.recipient, "dropped"] += 1
        log.error("a notice to %s is dropped (%s): %s", pending.recipient, reason, pending.notice.title)

    def save(self) -> None:
        """Write what has changed."""
        state = _State(tuple(self.pending), dict(self.open_notices))
        if self._path is None or state == self._written:
            return
        try:
            replace_file(self._path, [msgspec.json.encode(state)])
            self._written = state
        except OSError as error:
            log.error("cannot write %s: %s", self._path, error.strerror or error)
