"""Records how the job's function ended where a framework runs it, catches its exceptions, and ends the process later.

Such an exception reaches no excepthook, and the end of the process tells nothing. Ray ends its actors with exit code 1
in any case. A pool of processes ends its workers with SIGTERM or lets them leave. Until then the process may be idle
for hours, in a notebook for example, which is not a stall. The names below are private ones of Ray, Python and pytest;
where a version has others, zmon complains once or records nothing, and an end is judged without them.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from multiprocessing import current_process
from typing import Any

import torch.distributed as dist

from zmon import probe
from zmon.probe.hooks.later import when_imported
from zmon.probe.hooks.replacing import wrapper_of
from zmon.probe.rank import DONE, INIT, TRAIN

_RAY = "ray.train"
_was_done = False  # the rank was done until it began to join others again


def install() -> None:
    """Wrap the functions and classes that run the job's function, once their modules are imported."""
    when_imported("ray.train.v2._internal.execution.worker_group.thread_runner", _watch_ray)
    when_imported("ray.air._internal.util", _watch_older_ray)
    when_imported("multiprocessing.pool", lambda module: _record_failures(module, "ExceptionWithTraceback"))
    when_imported("concurrent.futures.process", _watch_executor)
    when_imported("_pytest.runner", lambda module: _end_training_after(module, "call_and_report"))
    when_imported("IPython", _end_training_after_cells)


def _watch_ray(module: Any) -> None:
    run, failure = module.ThreadRunner.run, module.construct_user_exception_with_traceback

    @wrapper_of(run)
    def run_and_record(self: Any, target: Callable[[], Any], *args: Any, **kwargs: Any) -> Any:
        return run(self, _record_return(target), *args, **kwargs)

    @wrapper_of(failure)
    def record_failure(error: BaseException, exclude_frames: int = 0) -> Any:
        probe.record_result(_RAY, error)
        return failure(error, exclude_frames + 1)  # hides the frame of `_record_return` too

    if not hasattr(run, "__zmon__"):
        module.ThreadRunner.run, module.construct_user_exception_with_traceback = run_and_record, record_failure


def _watch_older_ray(module: Any) -> None:
    """Watch the thread in which Ray Train ran the function until Ray 2.50."""
    run, failure = module.RunnerThread.run, module.RunnerThread._propagate_exception

    @wrapper_of(run)
    def run_and_record(self: Any) -> None:
        self._target = _record_return(self._target)
        run(self)

    @wrapper_of(failure)
    def record_failure(self: Any, error: BaseException) -> None:
        cause = error
        while isinstance(cause, module.StartTraceback) and cause.__cause__ is not None:  # Ray wraps the job's exception
            cause = cause.__cause__
        probe.record_result(_RAY, cause)
        failure(self, error)

    if not hasattr(run, "__zmon__"):
        module.RunnerThread.run, module.RunnerThread._propagate_exception = run_and_record, record_failure


def _record_return(target: Callable[..., Any]) -> Callable[..., Any]:
    @wrapper_of(target)
    def run(*args: Any, **kwargs: Any) -> Any:
        result = target(*args, **kwargs)
        probe.record_result(_RAY)
        return result

    return run


def _watch_executor(module: Any) -> None:
    _record_failures(module, "_ExceptionWithTraceback")
    _end_training_after(module, "_sendback_result")


def _record_failures(module: Any, name: str) -> None:
    """Wrap the class with which a worker of a pool passes an exception to the program.

    A return of a function does not end the rank there, because the worker may get another function. Neither does a
    failure in a job of one rank: a search of parameters runs many such jobs in one process, and expects that some fail.
    """
    original = getattr(module, name)

    @wrapper_of(original)
    def failure(error: BaseException, trace: Any) -> Any:
        if probe.is_one_of_many():
            probe.record_result(module.__name__, error)
        return original(error, trace)

    if not hasattr(original, "__zmon__"):
        setattr(module, name, failure)


def _end_training_after(module: Any, name: str) -> None:
    """Wrap the function that a framework calls after the job's function, or around it."""
    original = getattr(module, name)

    @wrapper_of(original)
    def end(*args: Any, **kwargs: Any) -> Any:
        try:
            return original(*args, **kwargs)
        finally:
            probe.end_training()

    if not hasattr(original, "__zmon__"):
        setattr(module, name, end)


def _end_training_after_cells(ipython: Any) -> None:
    if (shell := ipython.get_ipython()) is not None:
        shell.events.register("post_run_cell", lambda *_: probe.end_training())


@probe.guarded
def begin_join() -> None:
    """Let a rank that is done initialize again: from now on it and its peers may wait for each other.

    The rank stays in `init` if the join raises: the job tries again, or is about to end.
    """
    global _was_done
    probe.record_result("")  # a process that joins again has more to do
    timeline = probe.current
    if timeline is not None and timeline.activity == DONE:
        timeline.turn_to(INIT)
        _was_done = True


@probe.guarded
def end_join() -> None:
    """Let a rank that was done go on; a worker of a pool may run another function now, and is done until it trains."""
    global _was_done
    timeline = probe.current
    if timeline is not None and _was_done and timeline.activity == INIT:
        timeline.turn_to(DONE if _is_pooled() else TRAIN)
    _was_done = False


def leave_groups() -> None:
    """End the training of a rank that has destroyed its default process group: no other rank waits for it then.

    A script exports its model or writes a report; nothing tells when the function of a pool's worker returns. A script
    that destroys its groups because it fails is about to end.
    """
    if not dist.is_initialized() and (_is_pooled() or sys.exception() is None):
        probe.end_training()


def _is_pooled() -> bool:
    return "PoolWorker" in current_process().name
