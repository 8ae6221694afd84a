"""Hooks into torch, with which zmon infers steps, collectives, device and stacks without help from the job.

A rank calls `attach` to be watched. Under `zmon run`, `watch` is called in every process that may become a rank. Each
hook is a module with `install()` and calls only the probe. Only these two functions load the hooks, because hooks need
torch and daemons do not.
"""

from __future__ import annotations

import gc
import importlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial

from zmon import probe
from zmon.probe.autoload.sitecustomize import attaches_at_once, is_below_rank, mark_environment, restore_environment
from zmon.probe.run_check import note_watched

# Installed once, before or after the rank attaches.
HOOKS = (
    "world", "collectives", "functional", "ddp", "backward", "steps", "loading", "evaluation", "saving", "compilation",
    "runners",
)  # fmt: skip
AT_RANK = ("device", "loops", "flops", "worker_server")  # these need the rank's box


def attach(job_id: str | None = None, labels: dict[str, str] | None = None, role: str = "") -> bool:
    """Begin to watch this rank; call this before the process group is created.

    `role` names the ranks that do the same work, such as the stage of a pipeline: a rank is compared with those of its
    role. Returns False, after one line on stderr, if the rank cannot be watched.
    """
    if not probe.attach_box(job_id, labels):
        return False
    if role:
        probe.identify(role=role)
    try:
        import torch  # noqa: F401 - without torch a job has steps and phases, but no collectives
    except ImportError:
        return True
    _install((*HOOKS, *AT_RANK))
    return True


def watch() -> None:
    """Install the hooks under `zmon run`, and attach once this process becomes a rank.

    A process below a rank may be a loader worker, so it has only the hook into its process group until it joins one.
    """
    is_below = is_below_rank()
    first, others = (HOOKS[:1], HOOKS[1:]) if is_below else (HOOKS, ())
    _install(first)
    probe.expect_rank(partial(_on_attach, others), must_join=is_below)
    if attaches_at_once():
        probe.start_as_rank()


def _on_attach(hooks: Sequence[str]) -> None:
    note_watched()
    if probe.is_whole_job():  # it may have tried the model, and start the ranks that train it
        mark_environment()
    else:  # children of a rank are not ranks
        restore_environment()
    _install((*hooks, *AT_RANK, "executions"))  # an exec would lose the hook of `zmon run`


def _install(names: Sequence[str]) -> None:
    try:
        replacing = importlib.import_module("zmon.probe.hooks.replacing")
        with _no_garbage_collection(), replacing.one_search():
            for name in names:
                _install_hook(name)
    except Exception as error:
        probe.complain(f"cannot install the hooks in this job: {error!r}")


def _install_hook(name: str) -> None:
    try:
        importlib.import_module(f"zmon.probe.hooks.{name}").install()
    except Exception as error:
        probe.complain(f"cannot install the hook {name!r} in this job: {error!r}")


@contextmanager
def _no_garbage_collection() -> Iterator[None]:
    """Put off a full collection, which the few objects made here could start; torch's objects make it slow."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
