"""What the trainer calls: attach once, then mark steps, phases and activities. Nothing here ever raises.

    zmon.attach()
    for batch in batches:
        with zmon.step():
            zmon.phase("forward")
            ...
        zmon.report(loss=loss)

Before `attach`, or where no box could be made, every call does nothing.
"""

from __future__ import annotations

import functools
import json
import os
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Any

from zmon.box import DEFAULT_ROOT, BoxWriter, box_path, layout
from zmon.errors import ZmonError
from zmon.probe.autoload import switched_off
from zmon.probe.complaints import complain as complain  # for the hooks, too
from zmon.probe.interface import job_interface
from zmon.probe.last_words import forget_last_words, record_last_words
from zmon.probe.launch import LaunchEnvironment, read_launch
from zmon.probe.ledger import Ledger
from zmon.probe.plan_file import write_plan
from zmon.probe.rank import ACTIVITY_NUMBER, INIT, PHASE_NUMBER, TRAIN, RankTimeline

current: RankTimeline | None = None  # the timeline of this rank, for the hooks; None while it is not watched
_identity: layout.Identity | None = None
_expected: Callable[[], None] | None = None


def training() -> RankTimeline | None:
    """The timeline of this rank, which trains from now on; for the hooks that see it do so."""
    if current is None:
        turn_out()
    if current is None or current.activity == TRAIN or current.told_activity:
        return current
    if current.activity == INIT and not current.told_steps and not current.mine():
        current.adopt()  # a framework that trains in a thread of its own
    current.turn_to(TRAIN)
    return current


def guarded(hook: Callable[..., None]) -> Callable[..., None]:
    """A hook whose failure is counted and said, and is not the job's."""

    @functools.wraps(hook)
    def call(*args: Any, **kwargs: Any) -> None:
        begin = time.monotonic_ns()
        try:
            hook(*args, **kwargs)
        except Exception as error:
            _failed(error)
        if current is not None:
            current.overhead_ns += time.monotonic_ns() - begin

    return call


def expect(then: Callable[[], None]) -> None:
    """This process may turn out to be a rank: begin the watch when it does, and call `then`."""
    global _expected
    _expected = then


def turn_out(rank: int | None = None, world_size: int | None = None, init_method: str | None = None) -> None:
    """This process is a rank: watch it from now on, if that was expected. Tried once."""
    global _expected
    then, _expected = _expected, None
    if then is not None and current is None:
        attach_box(rank=rank, world_size=world_size, init_method=init_method)
        then()


def attach_box(
    job_id: str | None = None,
    labels: dict[str, str] | None = None,
    rank: int | None = None,
    world_size: int | None = None,
    init_method: str | None = None,
) -> bool:
    """Begin to watch this rank. False, after one line on stderr, where that cannot be."""
    global current
    if current is not None:
        return True
    if switched_off():
        return False
    try:
        launch = read_launch(os.environ, job_id, rank, world_size, init_method)
        current = _open(launch, labels or _labels(os.environ.get("ZMON_LABELS", "")))
        record_last_words(current)
    except Exception as error:
        complain(str(error) if isinstance(error, ZmonError) else f"cannot watch this rank: {error!r}")
        return False
    os.register_at_fork(after_in_child=_forget)
    return True


def identify(*, device: str | None = None, backend: str | None = None, socket: str | None = None) -> None:
    """Add to the box what became known about the rank after it attached."""
    global _identity
    if current is not None and _identity is not None:
        _identity = replace(
            _identity,
            device=_identity.device if device is None else device,
            backend=_identity.backend if backend is None else backend,
            socket=_identity.socket if socket is None else socket,
        )
        current.box.identity(_identity)


class _Step:
    """`with zmon.step():` around one optimizer update, fetching its batch included."""

    __slots__ = ("number",)
    number: int | None

    def __enter__(self) -> None:
        if current is not None:
            begin = time.monotonic_ns()
            try:
                current.told_steps |= current.mine()
                current.begin_step(self.number)
                current.overhead_ns += time.monotonic_ns() - begin
            except Exception as error:
                _failed(error)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if current is not None and kind is None:
            begin = time.monotonic_ns()
            try:
                current.end_step()
                current.overhead_ns += time.monotonic_ns() - begin
            except Exception as failure:
                _failed(failure)


_step = _Step()


def step(number: int | None = None) -> _Step:
    """One optimizer update; `number` counts on by itself when it is not given."""
    _step.number = number
    return _step


def phase(name: str) -> None:
    """From now on this rank's own time goes into `name`: data, h2d, embedding, forward, backward, …"""
    if current is not None:
        begin = time.monotonic_ns()
        try:
            current.phase(PHASE_NUMBER[name])
            current.told_phases |= current.mine()  # a prefetching thread tells nothing of the rank's own
            current.overhead_ns += time.monotonic_ns() - begin
        except Exception as error:
            _failed(error, f"zmon.phase({name!r}): the phases are {', '.join(PHASE_NUMBER)}")


class activity:
    """`with zmon.activity("eval"):` what the rank is there for; its own lease applies meanwhile."""

    __slots__ = ("_before", "_name", "_told")

    def __init__(self, name: str) -> None:
        self._name = name
        self._before: int | None = None
        self._told = False

    def __enter__(self) -> None:
        if current is not None:
            try:
                self._told = current.told_activity
                self._before = current.turn_to(ACTIVITY_NUMBER[self._name])
                current.told_activity |= current.mine()
            except Exception as error:
                _failed(error, f"zmon.activity({self._name!r}): it is one of {', '.join(ACTIVITY_NUMBER)}")

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if current is not None and self._before is not None:
            try:
                if self._name == "checkpoint" and kind is None:
                    current.ledger.saved()
                if current.mine():
                    current.turn_to(self._before)
                    current.told_activity = self._told
            except Exception as failure:
                _failed(failure)


def work(samples: int | None = None, lookups: int | None = None) -> None:
    """How much work this rank has in this step, so that uneven work is not taken for a slow rank."""
    if current is not None:
        try:
            current.ledger.work(samples, lookups)
        except Exception as error:
            _failed(error)


def report(**values: float) -> None:
    """Gauges such as loss or normalized_entropy; four names a rank."""
    if current is not None:
        try:
            current.ledger.report(values)
        except Exception as error:
            _failed(error)


def plan(ranks: Sequence[Mapping[str, Any]], **totals: float) -> None:
    """What a step is to be for each rank, as the trainer predicts it, so that plan and reality can be compared.

    An entry a rank, rank 0 first: lookups, sent_bytes and received_bytes (in all-to-alls), seconds (of its own),
    memory_bytes, and tables, the names of those it holds, the dearest first; each may be left out. `totals` are of the
    whole job. Whoever calls it, rank 0's is taken; the last one counts.
    """
    if current is not None:
        begin = time.monotonic_ns()
        try:
            if _identity is not None and _identity.rank == 0:
                write_plan(current.box.path, _identity.run_uid, _identity.world_size, ranks, totals)
        except Exception as error:
            _failed(error, str(error) if isinstance(error, ZmonError) else "")
        current.overhead_ns += time.monotonic_ns() - begin


def _open(launch: LaunchEnvironment, labels: dict[str, str]) -> RankTimeline:
    root = Path(os.environ.get("ZMON_BOX_DIR", DEFAULT_ROOT))
    box = BoxWriter(box_path(root, launch.job_id, launch.attempt, launch.rank))
    try:
        return _fill(box, launch, labels)
    except BaseException:
        box.discard()
        raise


def _fill(box: BoxWriter, launch: LaunchEnvironment, labels: dict[str, str]) -> RankTimeline:
    global _identity
    labels = {str(key): str(value) for key, value in labels.items()}
    if len(json.dumps(labels)) > 1000:
        complain("the labels of this job are left out: longer than 1,000 bytes. Shorten them")
        labels = {}
    _identity = layout.Identity(
        pid=os.getpid(),
        run_uid=uuid.uuid4().hex,
        start_ns=time.monotonic_ns(),
        start_unix=time.time(),
        launcher_pid=launch.launcher_pid,
        launcher_start=launch.launcher_start_ticks,
        rank=launch.rank,
        local_rank=launch.local_rank,
        world_size=launch.world_size,
        local_world_size=launch.local_world_size,
        attempt=launch.attempt,
        restart_count=launch.restart_count,
        max_restarts=launch.max_restarts if launch.max_restarts >= 0 else None,
        job_id=launch.job_id,
        device="cpu",
        backend=None,
        socket="",
        labels=labels,
    )
    box.identity(_identity)
    interface = job_interface(os.environ, launch.one_host) if launch.local_rank == 0 else None
    opened = RankTimeline(box, Ledger(box, interface, network_known=launch.one_host), begun=_identity.start_ns)
    box.publish()
    return opened


def _labels(pairs: str) -> dict[str, str]:
    """`owner=ann,model=dlrm` as a dictionary; what is no pair is left out."""
    split = (pair.split("=", 1) for pair in pairs.split(",") if "=" in pair)
    return {key.strip(): value.strip() for key, value in split}


def _forget() -> None:
    """After a fork: a worker is not the rank."""
    global current
    if current is not None:
        current = None
        forget_last_words()


def _failed(error: Exception, hint: str = "") -> None:
    if current is not None:
        current.ledger.dropped += 1
    complain(hint or f"the probe lost a mark: {error!r}")
