"""End a launcher after its SIGTERM: wait for the grace period, then send SIGKILL to the launcher and its living ranks.

A termination runs in a thread of its own. Each signal is in the ledger before it is sent. If the agent ends meanwhile,
the next agent does not continue.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from signal import SIGKILL

from zmon.agent.acts.ledger import FINISHED, INTERRUPTED, RESULT, SIGNAL, ActRecord
from zmon.agent.acts.processes import END_SECONDS, HeldProcess, Refused, hold_rank
from zmon.agent.acts.target import RankTarget

log = logging.getLogger("zmon.acts")

_LOOK_SECONDS = 0.2  # time between two looks at the launcher and its ranks during the grace period


@dataclass(frozen=True)
class Termination:
    """The end of one launcher."""

    launcher: HeldProcess
    grace_seconds: float
    living: Callable[[], list[RankTarget]]  # the ranks that name this launcher and live; raises Refused
    check_stops: Callable[[], None]  # raises Refused if the agent ends, or a person or a breaker has stopped acts
    record: ActRecord
    closing: threading.Event  # the agent ends

    def run(self) -> None:
        """Wait, and then kill. A signal is sent only after its line is in the ledger."""
        with self.launcher:
            try:
                self._wait()
                if self.closing.is_set():
                    raise Refused("the agent ends: look by hand whether the launcher and its ranks have ended")
                lines = [self._kill(self.launcher)] if not self.launcher.ended() else []
                lines += [self._kill_rank(rank) for rank in self.living()]
                self.record.write(FINISHED, "; ".join(lines) or "the launcher and its ranks ended after SIGTERM")
            except Refused as refusal:
                event = INTERRUPTED if self.closing.is_set() else FINISHED
                self.record.note(event, f"no further signal is sent: {refusal}")
            except OSError as error:
                log.error("cannot write to the ledger of acts, no further signal is sent: %s", error.strerror)

    def _wait(self) -> None:
        until = time.monotonic() + self.grace_seconds
        while time.monotonic() < until and not self.closing.is_set():
            if self.launcher.ended(_LOOK_SECONDS):
                if not self.living():
                    return
                self.closing.wait(_LOOK_SECONDS)

    def _kill_rank(self, rank: RankTarget) -> str:
        """Kill a rank if it still holds its box, and return the result. Raises Refused as `check_stops` does."""

        def refreshed() -> RankTarget:
            return next((alive for alive in self.living() if alive.run_uid == rank.run_uid), rank._replace(holder=None))

        self.check_stops()  # before the boxes are asked, which an agent that ends no longer reads
        try:
            held = hold_rank(rank, refreshed)
        except Refused as refusal:
            line = f"rank {rank.rank}: {refusal}"
            self.record.write(RESULT, line)
            return line
        with held:
            return self._kill(held)

    def _kill(self, process: HeldProcess) -> str:
        """Announce SIGKILL, send it, and write the result; return the result. Raises Refused as `check_stops` does."""
        self.check_stops()
        what = f"SIGKILL to process {process.pid}, {process.what}"
        self.record.write(SIGNAL, what)
        try:
            process.send(SIGKILL)
            line = f"{what}: {'it has ended' if process.ended(END_SECONDS) else 'it has not ended yet'}"
        except Refused as refusal:
            line = f"{what}: {refusal}"
        self.record.write(RESULT, line)
        return line
