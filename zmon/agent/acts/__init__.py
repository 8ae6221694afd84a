"""Acts: the agent of a host ends a rank or a launcher when a hub asks for it, and the agent alone decides.

Each decision is in the ledger before anything is done. The limits are one act for each start of a rank and for each
launcher, one for a job in ten minutes, and four for the host in an hour. At the fifth, the agent stops all acts until a
person removes the stop (`zmon/act_stops.py`). Requests are decided one after the other. They are decided in threads,
because disks and processes may hang.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import threading
import time
from collections import Counter
from collections.abc import Callable, Collection
from functools import partial
from pathlib import Path
from signal import SIGKILL, SIGTERM
from typing import Any, NoReturn, TypeVar

from zmon.act_stops import ALL, stop, stops
from zmon.agent.acts.launchers import hold_launcher
from zmon.agent.acts.ledger import ANNOUNCED, DONE, WITHDRAWN, Act, ActLedger, ActRecord
from zmon.agent.acts.processes import END_SECONDS, STOPPED, HeldProcess, Refused, hold_rank
from zmon.agent.acts.target import RankTarget, find_target, living_ranks
from zmon.agent.acts.termination import Termination
from zmon.agent.sources.boxes import Boxes
from zmon.errors import Unreachable, UsageError
from zmon.format import plain
from zmon.schema.act import (
    ACT_INTERVAL_SECONDS,
    ACTED,
    AGENT_ACTS,
    KILL_CULPRIT,
    REFUSED,
    STOP_RESTARTS,
    ActAnswer,
    ActRequest,
)
from zmon.schema.api.endpoint import Role
from zmon.web.asker import Asker
from zmon.web.responses import Refusal
from zmon.web.work_queue import WorkQueue

log = logging.getLogger("zmon.acts")

T = TypeVar("T")
HOST_SECONDS, MAX_ACTS_OF_HOST = 3600.0, 4  # a host with more acts within an hour has a fault that no kill heals
_MIN_GRACE_SECONDS, _MAX_GRACE_SECONDS = 1.0, 60.0  # torchrun needs seconds to end its ranks
_NOT_ALLOWED = "the agent runs without --allow-actions"
AskBoxes = Callable[[Callable[[Boxes], Any]], Any]  # in the thread that scans them; raises Unreachable and TimeoutError


def check_asker(asker: Asker, hub_users: Collection[int]) -> None:
    """Raise Refusal unless the asker may request acts.

    With roles, the asker needs the role `actions`. Without roles, it must be root, the agent's user or a `--hub-user`.
    """
    local = (0, os.geteuid(), *hub_users)
    if "actions" in asker.roles or (not asker.roles and asker.uid in local):
        return
    who = asker.reason if asker.uid is None else f"uid {asker.uid} is none of them"
    raise Refusal(
        403, f"acts are for the role actions, and over loopback for root, the agent's user and --hub-user: {who}"
    )


class Acts:
    """The acts of one host."""

    def __init__(
        self,
        data_dir: Path | None,
        host: str,
        ask_boxes: AskBoxes,
        allowed: bool = True,  # the agent runs with --allow-actions
    ) -> None:
        self._data_dir, self._host, self._ask_boxes, self._allowed = data_dir, host, ask_boxes, allowed
        self._ledger: ActLedger | None = None
        self._unwritten_stop: str | None = None  # the reason of a stop that the disk did not take
        self._one_at_a_time = threading.Lock()  # a request whose client has left still holds it
        self._turns = WorkQueue()
        self._closing = threading.Event()
        # Answers by act and result, without repeated ones.
        self.counts = Counter({(act, result): 0 for act in AGENT_ACTS for result in (ACTED, REFUSED)})

    async def answer(self, request: ActRequest) -> ActAnswer:
        """Decide, and act if the decision is to do so."""
        if not self._allowed:
            return self._act_answer(REFUSED, _NOT_ALLOWED)
        async with self._turns.turn():
            return await asyncio.to_thread(self._decide, request)

    def refuses(self, roles: Collection[Role]) -> str:
        """Return why all requests of an asker with these roles are refused; empty if each request is decided."""
        if not self._allowed:
            return _NOT_ALLOWED
        return "the client lacks the role actions" if roles and "actions" not in roles else ""

    def open(self) -> None:
        """Read the ledger, which marks the open acts of an earlier agent."""
        with self._one_at_a_time:
            try:
                self._open_ledger()
            except Refused as refusal:
                log.error("no act is possible: %s", refusal)

    def close(self) -> None:
        """Send no further signal, and release the ledger for the next agent."""
        self._closing.set()
        if self._ledger is not None:
            self._ledger.close()
            self._ledger = None

    def _decide(self, request: ActRequest) -> ActAnswer:
        """Decide and act, or refuse; count and log the answer. Called in a thread."""
        with self._one_at_a_time:
            try:
                answer = self._answer_and_act(request)
            except Refused as refusal:
                answer = self._refuse(request, str(refusal))
        if not answer.repeated and request.act in AGENT_ACTS:
            self.counts[request.act, answer.result] += 1
        about = f"{request.act} for rank {request.rank} of {request.job_id}"
        log.warning("%s: %s%s: %s", plain(about), "again " if answer.repeated else "", answer.result, answer.reason)
        return answer

    def _answer_and_act(self, request: ActRequest) -> ActAnswer:
        """Return the answer, after the act. Raises Refused."""
        if request.act not in AGENT_ACTS:
            raise Refused(f"an agent does only {', '.join(AGENT_ACTS)}")
        ledger = self._open_ledger()
        is_kill = request.act == KILL_CULPRIT
        if (earlier := ledger.act_for(request.run_uid, is_kill)) is not None:
            return self._repeat(earlier)
        rank = self._target(request)
        key = f"rank {rank.run_uid}" if is_kill else f"launcher {rank.launcher.pid}@{rank.launcher.start_ticks}"
        if (earlier := ledger.act_on(key)) is not None:
            return self._repeat(earlier)
        self._check_stops(request.act)
        with contextlib.ExitStack() as cleanup:
            process = self._open_rank(request, rank) if is_kill else self._open_launcher(request, rank)
            cleanup.enter_context(process)
            self._check_limits(ledger, rank.job, request.intent)
            record = ActRecord(ledger, request, key, rank.job)
            answer = self._end(record, process)
            if not is_kill:
                cleanup.pop_all()  # the thread of the termination closes the process
                self._start_termination(record, rank, process)
        return answer

    def _open_ledger(self) -> ActLedger:
        if self._closing.is_set():
            raise Refused("the agent ends")
        if self._data_dir is None:
            raise Refused("the agent has no data directory for its ledger: give it --data-dir")
        if self._ledger is None:
            try:
                self._ledger = ActLedger(self._data_dir)
            except (OSError, UsageError) as error:
                reason = error.strerror if isinstance(error, OSError) else str(error)
                raise Refused(f"the ledger of acts in {self._data_dir} cannot be used: {reason}") from error
        return self._ledger

    def _check_stops(self, act: str) -> None:
        """Raise Refused if the agent ends, or if a person or a breaker has stopped this act or all acts."""
        if self._closing.is_set():
            raise Refused("the agent ends")
        assert self._data_dir is not None  # the ledger is in this folder
        if self._unwritten_stop is not None:
            self._stop(self._unwritten_stop)
        by_name = stops(self._data_dir)
        if (present := by_name.get(ALL) or by_name.get(act)) is not None:
            raise Refused(f"acts are stopped by {plain(present.by)}: {plain(present.reason)}. See zmon act reset")

    def _check_limits(self, ledger: ActLedger, job: str, intent: str) -> None:
        """Raise Refused beyond a limit. One intent may be about several ranks of a job."""
        recent = (act.announced for act in ledger.within(ACT_INTERVAL_SECONDS))
        if any(announced.job == job and announced.intent != intent for announced in recent):
            raise Refused(f"{job} had an act already: one in {ACT_INTERVAL_SECONDS / 60:g} minutes")
        if (num_acts := len(ledger.within(HOST_SECONDS))) >= MAX_ACTS_OF_HOST:
            self._stop(
                f"{num_acts} acts on {self._host} within an hour, and one more was asked for: a person must look"
            )

    def _stop(self, reason: str) -> NoReturn:
        """Stop all acts, and refuse the one at hand. Raises Refused."""
        assert self._data_dir is not None
        self._unwritten_stop = reason
        try:
            stop(self._data_dir, ALL, reason, f"the agent of {self._host}", is_breaker=True)
            self._unwritten_stop = None
        except OSError as error:
            log.error("cannot write the stop of acts, which holds until this agent ends: %s", error.strerror)
        raise Refused(f"{reason}. Acts are stopped now: see zmon act reset")

    def _ask(self, question: Callable[[Boxes], T]) -> T:
        try:
            answer: T = self._ask_boxes(question)
            return answer
        except (Unreachable, TimeoutError, OSError, ValueError) as error:
            raise Refused(str(error) or "the boxes cannot be read") from error

    def _target(self, request: ActRequest) -> RankTarget:
        rank = self._ask(partial(find_target, run_uid=request.run_uid, rank=request.rank))
        if rank is None:
            raise Refused(f"this start of rank {request.rank} is not on this node: zmon status lists jobs and ranks")
        return rank

    def _open_rank(self, request: ActRequest, rank: RankTarget) -> HeldProcess:
        """Return the process of a rank, opened and checked. Raises Refused."""
        held = hold_rank(rank, lambda: self._target(request))
        try:
            if suspended := [pid for pid, stat in held.ancestors() if stat.state == STOPPED]:
                raise Refused(f"process {suspended[0]} above {held.what} is stopped: its owner has suspended the job")
            held.check_healer()
        except BaseException:
            held.close()
            raise
        return held

    def _open_launcher(self, request: ActRequest, rank: RankTarget) -> HeldProcess:
        """Return the process of the launcher of a rank, opened and checked. Raises Refused."""
        if request.act == STOP_RESTARTS and not rank.max_restarts:
            raise Refused(f"the launcher of rank {rank.rank} of {rank.job} does not restart ranks")
        return hold_launcher(rank, self._living(rank))

    def _living(self, rank: RankTarget) -> list[RankTarget]:
        return self._ask(partial(living_ranks, owner=rank.owner, launcher=rank.launcher))

    def _end(self, record: ActRecord, process: HeldProcess) -> ActAnswer:
        """Announce the act, send the signal, and write the result. Raises Refused."""
        act = record.request.act
        signal = SIGKILL if act == KILL_CULPRIT else SIGTERM
        what = f"{signal.name} to process {process.pid}, {process.what}"
        try:
            record.write(ANNOUNCED, what)
        except OSError as error:
            raise Refused(f"nothing is done without its audit, which cannot be written: {error.strerror}") from error
        try:
            self._check_stops(act)  # again, because the write to the disk may have taken a while
            process.send(signal)
        except Refused as refusal:
            record.note(WITHDRAWN, f"{what}: not sent: {refusal}")
            raise
        if act == KILL_CULPRIT:
            ended = process.ended(END_SECONDS)
            line = f"{what}: {'it has ended' if ended else f'it has not ended after {END_SECONDS:g} s'}"
        else:
            line = f"{what}: sent; SIGKILL follows in {_grace(record.request):g} s to what still lives"
        return self._act_answer(ACTED, line, record.note(DONE, line).time)

    def _start_termination(self, record: ActRecord, rank: RankTarget, process: HeldProcess) -> None:
        """Begin what follows the SIGTERM of a launcher, in a thread of its own."""
        termination = Termination(
            launcher=process,
            grace_seconds=_grace(record.request),
            living=partial(self._living, rank),
            check_stops=partial(self._check_stops, record.request.act),
            record=record,
            closing=self._closing,
        )
        threading.Thread(target=termination.run, daemon=True, name="zmon-act").start()

    def _refuse(self, request: ActRequest, reason: str) -> ActAnswer:
        if self._ledger is not None:
            ActRecord(self._ledger, request).note(REFUSED, reason)
        return self._act_answer(REFUSED, reason)

    def _repeat(self, earlier: Act) -> ActAnswer:
        if (outcome := earlier.outcome) is not None:
            return self._act_answer(ACTED, outcome.line, outcome.time, repeated=True)
        reason = f"an earlier request was interrupted after its audit ({earlier.announced.line}): look by hand"
        return self._act_answer(REFUSED, reason, earlier.announced.time, repeated=True)

    def _act_answer(self, result: str, reason: str, decided: float | None = None, repeated: bool = False) -> ActAnswer:
        """Return an answer. `decided`: the time of the decision in the ledger; None: now."""
        decided = time.time() if decided is None else decided
        return ActAnswer(result=result, reason=plain(reason), host=self._host, time=decided, repeated=repeated)


def _grace(request: ActRequest) -> float:
    return min(_MAX_GRACE_SECONDS, max(_MIN_GRACE_SECONDS, request.grace_seconds))


__all__ = ["Acts", "check_asker"]
