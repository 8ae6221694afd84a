"""The probe in a rank: it writes steps, phases, activities and collectives into the rank's black box.

These functions are for the trainer. None of them raises, blocks or needs a network:

    zmon.attach()
    for batch in batches:
        with zmon.step():
            zmon.phase("forward")
            ...
        zmon.report(loss=loss)

Before `attach`, or if no box could be created, every call does nothing.

`launch` reads the environment, and `rank_box` creates the box. `rank` has the timeline, `ledger` the totals, `edge/`
the hot path of both in C, `hooks/` the hooks into torch. `last_words` and `signal_sender.c` record how the rank ends.
`run` and `autoload/` are for `zmon run`. The probe uses mapped memory, the clock, the environment, and torch if the job
has it.
"""

from __future__ import annotations

import functools
import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, ParamSpec

from zmon.box.identity import Identity, fits_shares
from zmon.errors import UsageError, ZmonError
from zmon.probe.autoload.sitecustomize import switched_off
from zmon.probe.complaints import complain as complain  # exported for the hooks
from zmon.probe.edge import fronts
from zmon.probe.labels import parse_labels, with_label
from zmon.probe.last_words import RecordResult, forget_last_words, record_last_words
from zmon.probe.launch import read_launch
from zmon.probe.ledger import Ledger
from zmon.probe.plan_file import write_plan
from zmon.probe.rank import ACTIVITY_NUMBER, COMPILE, DONE, INIT, PHASE_NUMBER, TRAIN, RankTimeline
from zmon.probe.rank_box import create_box
from zmon.schema.names import FLOPS_SOURCES

P = ParamSpec("P")
current: RankTimeline | None = None  # the timeline of this rank, for the hooks; None while the rank is not watched
_identity: Identity | None = None  # as the box has it
_on_rank: Callable[[], None] | None = None  # called after this process has attached, if `expect_rank` was called
_expects_rank = False  # this process attaches once it becomes a rank
_must_join = False  # this process is a rank only if it joins a process group, because a rank has started it
_record_result: RecordResult | None = None  # returned by `record_last_words`


def start_training() -> RankTimeline | None:
    """Change the activity of the rank to training and return its timeline; called by hooks that see it train."""
    if current is None and not _must_join:
        start_as_rank()
    if current is None or current.activity in (TRAIN, COMPILE) or current.explicit_activity:
        return current
    if current.activity == INIT and not current.explicit_steps and not current.acts_for_rank():
        current.adopt_thread()  # some frameworks train in another thread
    current.turn_to(TRAIN)
    return current


def guarded(hook: Callable[P, None]) -> Callable[P, None]:
    """Wrap a hook so that its failure is counted and reported, and never reaches the job."""

    @functools.wraps(hook)
    def call(*args: P.args, **kwargs: P.kwargs) -> None:
        begin = time.monotonic_ns()
        try:
            hook(*args, **kwargs)
        except Exception as error:
            _complain(error)
        if current is not None:
            current.overhead_ns += time.monotonic_ns() - begin

    return call


def expect_rank(callback: Callable[[], None], must_join: bool = False) -> None:
    """Be ready to attach when this process becomes a rank; `callback` is called after that.

    `must_join`: the process is a rank only if it joins a process group, and not if it trains alone.
    """
    global _on_rank, _expects_rank, _must_join
    _on_rank, _expects_rank, _must_join = callback, True, must_join


def start_as_rank(rank: int | None = None, world_size: int | None = None, init_method: str | None = None) -> None:
    """Attach this process, which is a rank, if `expect_rank` was called before; later calls do nothing."""
    global _expects_rank
    expected, _expects_rank = _expects_rank, False
    if expected and current is None and _on_rank is not None:
        attach_box(rank=rank, world_size=world_size, init_method=init_method)
        _on_rank()


def attach_box(
    job_id: str | None = None,
    labels: dict[str, str] | None = None,
    rank: int | None = None,
    world_size: int | None = None,
    init_method: str | None = None,
) -> bool:
    """Begin to watch this rank; on failure write one line to stderr and return False."""
    global current, _identity, _record_result
    if current is not None:
        return True
    if switched_off():
        return False
    try:
        launch = read_launch(os.environ, job_id, rank, world_size, init_method)
        current, _identity = create_box(launch, labels or parse_labels(os.environ.get("ZMON_LABELS", "")))
        current.ledger.samples.on_source = lambda source: identify(samples_source=source)
        _record_result = record_last_words(current)
    except Exception as error:
        complain(str(error) if isinstance(error, ZmonError) else f"cannot watch this rank: {error!r}")
        return False
    os.register_at_fork(after_in_child=_detach_in_child)
    return True


def identify(**facts: Any) -> None:
    """Add facts to the box that became known after the rank attached; the names are those of `Identity`."""
    global _identity
    if current is not None and _identity is not None:
        _identity = replace(_identity, **facts)
        current.box.identity(_identity)


def check_place(rank: int, world_size: int) -> None:
    """Complain if this rank has peers, but attached before it had its number: it is shown as a job of its own."""
    if current is not None and is_whole_job() and world_size > 1:
        complain(
            f"this is rank {rank} of {world_size}, but it is watched as a job of one rank: it attached or trained "
            "before it had its number. Set RANK and WORLD_SIZE before that"
        )


def set_label(name: str, value: str) -> None:
    """Set a label that became known after the rank attached; an empty value removes it."""
    if _identity is not None:
        identify(labels=with_label(_identity.labels, name, value))


@guarded
def record_result(runner: str, error: BaseException | None = None) -> None:
    """Record how the job's function ended; for hooks into frameworks that run it, catch its exceptions and go on."""
    if _record_result is not None:
        _record_result(runner, error)


@guarded
def end_training() -> None:
    """Record that no step is due until the rank trains again: the job's function has returned, the process goes on."""
    if current is not None and current.activity not in (INIT, DONE):
        current.turn_to(DONE)


def is_one_of_many() -> bool:
    """Return True if this process is a rank of a job with several ranks."""
    return _identity is not None and _identity.world_size > 1


def is_whole_job() -> bool:
    """Return True if this process is the only rank of its job; False if it could not be watched."""
    return _identity is not None and _identity.world_size == 1


class _Step:
    """The context of `with zmon.step():`, around one optimizer update and the loading of its batch."""

    __slots__ = ("number",)
    number: int | None

    def __enter__(self) -> None:
        if current is not None:
            begin = time.monotonic_ns()
            try:
                if current.explicit_steps and not current.acts_for_rank():
                    current.adopt_thread()  # the job marks its steps, so the thread of the step trains
                current.explicit_steps |= current.acts_for_rank()
                current.begin_step(self.number)
                current.overhead_ns += time.monotonic_ns() - begin
            except Exception as error:
                _complain(error)

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if current is not None:
            begin = time.monotonic_ns()
            try:
                if kind is None:
                    current.end_step()
                else:
                    current.ledger.failed_steps += 1  # the job may try it again: its time counts for the next step
                current.overhead_ns += time.monotonic_ns() - begin
            except Exception as failure:
                _complain(failure)


_step: _Step = fronts.step_context(_Step)


def step(number: int | None = None) -> _Step:
    """Return a context manager for one optimizer update; without `number`, steps are counted from the last one on."""
    _step.number = number
    return _step


def phase(name: str) -> None:
    """Attribute this rank's self time to the phase `name` from now on, such as data, forward or backward."""
    if current is not None:
        begin = time.monotonic_ns()
        try:
            current.phase(PHASE_NUMBER[name])
            current.explicit_phases |= current.acts_for_rank()  # not from a prefetching thread
            current.overhead_ns += time.monotonic_ns() - begin
        except Exception as error:
            _complain(error, f"zmon.phase({name!r}) is unknown: use one of {', '.join(PHASE_NUMBER)}")


class activity:
    """The context of `with zmon.activity("eval"):`; each activity has its own lease."""

    __slots__ = ("_name", "_previous", "_was_explicit")

    def __init__(self, name: str) -> None:
        self._name = name
        self._previous: int | None = None
        self._was_explicit = False

    def __enter__(self) -> None:
        if current is not None:
            try:
                self._was_explicit = current.explicit_activity
                self._previous = current.turn_to(ACTIVITY_NUMBER[self._name])
                current.explicit_activity |= current.acts_for_rank()
            except Exception as error:
                _complain(error, f"zmon.activity({self._name!r}) is unknown: use one of {', '.join(ACTIVITY_NUMBER)}")

    @guarded
    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if current is not None and self._previous is not None:
            if self._name == "checkpoint" and kind is None:
                current.ledger.note_checkpoint()
            if current.acts_for_rank():
                current.turn_to(self._previous)
                current.explicit_activity = self._was_explicit


def work(
    samples: int | None = None,
    lookups: int | None = None,
    flops: float | None = None,
    memory_traffic: float | None = None,
    tokens: int | None = None,
    offload_read: int | None = None,
    offload_written: int | None = None,
    dtype: object = None,  # behind the amounts, where the C edge expects it
) -> None:
    """Report this rank's amount of work in this step, so that uneven work is not mistaken for a slow rank.

    `flops` is the floating-point operations, for the ratio to the peak of the device in `dtype`: a dtype or its name,
    such as bfloat16 or tf32, or a mapping from each to its share. `memory_traffic` is the bytes read from and written
    to device memory. `tokens` is the number of tokens in the batch. `offload_read` and `offload_written` are the bytes
    of parameters and optimizer state that came from, and went to, a disk or the memory of the host.
    """
    if current is not None:
        try:
            if flops is not None and not _declare_dtype(current.ledger, dtype):
                flops = None  # the other amounts of the call still count
            current.ledger.work(samples, lookups, flops, memory_traffic, tokens, offload_read, offload_written)
        except Exception as error:
            _complain(error)


def _declare_dtype(ledger: Ledger, dtype: object) -> bool:
    """Write the dtypes of the declared operations into the box if they are new; return False if they are not dtypes."""
    if dtype is not None and (dtype is ledger.declared_dtype or dtype == ledger.declared_dtype):
        return True
    shares = dict(dtype) if isinstance(dtype, Mapping) else {dtype: 1.0}
    names = {str(name).removeprefix("torch."): share for name, share in shares.items() if name is not None}
    if not names or not fits_shares(names):
        error = UsageError(
            f"zmon.work(flops=…, dtype={dtype!r}) cannot be used",
            "the peak of a device depends on the dtype",
            "Give the name of one dtype, such as bfloat16, or a mapping from names to shares between 0 and 1",
        )
        _complain(error)
        return False
    identify(flops_source=FLOPS_SOURCES[0], flops_dtypes=names, uncounted="")
    ledger.declared_dtype = dtype
    return True


@guarded
def report(**values: float) -> None:
    """Report gauges such as loss or normalized_entropy; a rank can report four names."""
    if current is not None:
        current.ledger.report(values, current.step)


@guarded
def plan(ranks: Sequence[Mapping[str, Any]] | None = None, *, steps: int | None = None, **totals: float) -> None:
    """Publish what the trainer plans: its number of steps, and its prediction for a step of each rank.

    With `steps` zmon shows the progress of the job and the time left. It is the number that the last step will have, as
    zmon counts the steps: from 1 in each launch, or as given to `step(number)`. A resumed job that gives no numbers
    plans the steps that are left.

    `ranks`, which zmon compares with reality, has a mapping for each rank, rank 0 first. Its keys, all optional, are
    lookups, sent_bytes, received_bytes (both in all-to-alls), seconds (self time), memory_bytes, and tables (the names
    of the rank's tables, the most expensive first). `totals` are figures of the whole job. Only calls on rank 0 count,
    and the last one wins.
    """
    if current is not None and _identity is not None and _identity.rank == 0:
        write_plan(current.box.path, _identity.run_uid, _identity.world_size, ranks, totals, steps)


def _detach_in_child() -> None:
    """Detach from the box after a fork, because a forked worker is not the rank.

    If the parent was the only rank of its job, the worker may be a rank of a new launch. It is one if it joins a group.
    """
    global current, _expects_rank, _must_join
    if current is not None:
        current = None
        _expects_rank, _must_join = is_whole_job(), True
        forget_last_words()


def _complain(error: Exception, line: str = "") -> None:
    """Count a lost record, and write `line` to stderr; without a line, write the error."""
    if current is not None:
        current.ledger.dropped += 1
    complain(line or (str(error) if isinstance(error, ZmonError) else f"the probe could not record a call: {error!r}"))


fronts.connect(probe_names=globals(), phase_numbers=PHASE_NUMBER)
step, phase, work = fronts.front("step", step, partner=_step), fronts.front("phase", phase), fronts.front("work", work)
