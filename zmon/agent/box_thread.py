"""The black boxes of a node, and the thread that scans them. Only this thread may call methods of the boxes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from zmon.agent.config import AgentConfig
from zmon.agent.poller import Poller, QuestionOrder
from zmon.agent.sources.boxes import Boxes
from zmon.errors import Unreachable
from zmon.process import ProcessId
from zmon.schema.rank import RankState
from zmon.web.responses import Refusal

T = TypeVar("T")


class BoxThread:
    """The thread that scans the boxes, and answers questions about them between two scans."""

    def __init__(self, config: AgentConfig, on_scan: Callable[[Any], None]) -> None:
        """Make the thread. It calls `on_scan` with the suspects of each scan."""
        self._config = config
        self.boxes = Boxes(config.box_dir, config.host, config.leases, places=config.places, watch=config.watch)
        interval, timeout = config.scan_interval_seconds, config.scan_timeout_seconds
        self.poller = Poller("boxes", self.boxes.read, interval, timeout, on_scan)

    def check(self) -> None:
        """Raise Refusal while the boxes cannot be read."""
        if failure := self._failure():
            raise Refusal(503, str(failure))

    async def ask(self, question: Callable[[Boxes], T], order: QuestionOrder = QuestionOrder.NOW) -> T:
        """Call a function in this thread, for the event loop. Raises Refusal while the boxes cannot be read."""
        self.check()
        answer = asyncio.wrap_future(self.poller.ask(lambda: question(self.boxes), order))
        config = self._config
        seconds = config.history_answer_seconds if order is QuestionOrder.HISTORY else config.answer_seconds
        try:
            async with asyncio.timeout(seconds):
                return await answer
        except TimeoutError as error:
            raise Refusal(503, str(self._unreachable(f"no answer within {seconds:g} s"))) from error

    def ask_and_wait(self, question: Callable[[Boxes], T]) -> T:
        """Call a function in this thread, for another thread. Raises Unreachable, or TimeoutError."""
        if failure := self._failure():
            raise failure
        return self.poller.ask(lambda: question(self.boxes)).result(self._config.answer_seconds)

    def processes(self) -> dict[ProcessId, tuple[str, int]]:
        """Return job id and rank by process; empty while the boxes cannot be read: a rank may have ended unnoticed."""
        return {} if self._failure() else self.boxes.processes

    def states(self) -> Sequence[tuple[RankState, int]]:
        """Return each rank with its pid, for another thread. Raises Unreachable, or TimeoutError."""
        return self.ask_and_wait(lambda boxes: [(state, box.pid) for box, state in boxes.ranks()])

    def close_boxes(self) -> None:
        """Close the boxes before the poller stops."""
        self.poller.ask(self.boxes.close, QuestionOrder.STOP)

    def _failure(self) -> Unreachable | None:
        """Return the reason why the boxes cannot be read, or None if they can."""
        status = self.poller.status
        return None if status is None or status.up else self._unreachable(status.error or "")

    def _unreachable(self, reason: str) -> Unreachable:
        return Unreachable(f"cannot read the boxes in {self.boxes.roots}", reason)
