"""Records how the job's function ended where a framework runs it, catches its exceptions, and ends the process later.

Such an exception reaches no excepthook, and the end of the process tells nothing: Ray ends its actors with exit code 1
in any case, a pool of processes ends its workers with SIGTERM or lets them leave. The names below are private ones of
Ray and Python; where a version has others, zmon complains once or sees nothing, and an end is judged without them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from zmon import probe
from zmon.probe.hooks.later import when_imported
from zmon.probe.hooks.replacing import wrapper_of

_RAY = "ray.train"


def install() -> None:
    """Wrap what runs the job's function, once each is imported."""
    when_imported("ray.train.v2._internal.execution.worker_group.thread_runner", _watch_ray)
    when_imported("ray.air._internal.util", _watch_older_ray)
    when_imported("multiprocessing.pool", _watch_pool("multiprocessing", "ExceptionWithTraceback"))
    when_imported("concurrent.futures.process", _watch_pool("concurrent.futures", "_ExceptionWithTraceback"))


def _watch_ray(module: Any) -> None:
    run, failure = module.ThreadRunner.run, module.construct_user_exception_with_traceback

    @wrapper_of(run)
    def run_and_record(self: Any, target: Callable[[], Any], *args: Any, **kwargs: Any) -> Any:
        return run(self, _recorded(target), *args, **kwargs)

    @wrapper_of(failure)
    def record_failure(error: BaseException, exclude_frames: int = 0) -> Any:
        probe.record_result(_RAY, error)
        return failure(error, exclude_frames + 1)  # and the frame of `_recorded`, which Ray should not show either

    if not hasattr(run, "__zmon__"):
        module.ThreadRunner.run, module.construct_user_exception_with_traceback = run_and_record, record_failure


def _watch_older_ray(module: Any) -> None:
    """Watch the thread in which Ray Train ran the function until Ray 2.50."""
    run, failure = module.RunnerThread.run, module.RunnerThread._propagate_exception

    @wrapper_of(run)
    def run_and_record(self: Any) -> None:
        self._target = _recorded(self._target)
        run(self)

    @wrapper_of(failure)
    def record_failure(self: Any, error: BaseException) -> None:
        probe.record_result(_RAY, error)
        failure(self, error)

    if not hasattr(run, "__zmon__"):
        module.RunnerThread.run, module.RunnerThread._propagate_exception = run_and_record, record_failure


def _recorded(target: Callable[..., Any]) -> Callable[..., Any]:
    @wrapper_of(target)
    def run(*args: Any, **kwargs: Any) -> Any:
        result = target(*args, **kwargs)
        probe.record_result(_RAY)
        return result

    return run


def _watch_pool(runner: str, name: str) -> Callable[[Any], None]:
    """Return the callback that watches the class with which a worker passes an exception to the program.

    That a function returned is no news there: the worker may get another one. Nor is a failure in a job of one rank: a
    search of parameters runs many of them in one process, and expects that some fail.
    """

    def watch(module: Any) -> None:
        original = getattr(module, name)

        @wrapper_of(original)
        def failure(error: BaseException, trace: Any) -> Any:
            if probe.is_one_of_many():
                probe.record_result(runner, error)
            return original(error, trace)

        if not hasattr(original, "__zmon__"):
            setattr(module, name, failure)

    return watch
