"""What zmon learns without the job's help: its steps, its collectives, its device, its stacks.

`attach` begins the watch of a rank that asked for it; `watch` that of a process which may turn out to be one. Each hook
is a module with `install()` and calls the probe and nothing else. They are loaded by these two alone: they need torch,
daemons do not.
"""

from __future__ import annotations

import importlib

from zmon import probe
from zmon.probe.autoload import launched, restore_environment

# Put in place once, before or after the rank begins; `backward` outside of what it encloses.
HOOKS = ("world", "collectives", "functional", "ddp", "backward", "steps", "loading", "evaluation", "saving")
AT_RANK = ("device", "worker_server")  # need the rank's box


def attach(job_id: str | None = None, labels: dict[str, str] | None = None) -> bool:
    """Begin to watch this rank; call it first, before the process group. False, said once, if that cannot be."""
    if not probe.attach_box(job_id, labels):
        return False
    try:
        import torch  # noqa: F401 - a job without torch has steps and phases, and no collectives
    except ImportError:
        return True
    _install(HOOKS)
    _install(AT_RANK)
    return True


def watch() -> None:
    """Under `zmon run`: be ready, and begin once this process turns out to be a rank."""
    _install(HOOKS)
    probe.expect(_begin)
    if launched():
        probe.turn_out()


def _begin() -> None:
    restore_environment()  # a rank's own children are no ranks
    _install(AT_RANK)


def _install(names: tuple[str, ...]) -> None:
    for name in names:
        try:
            importlib.import_module(f"zmon.probe.hooks.{name}").install()
        except Exception as error:
            probe.complain(f"{name} cannot be watched in this job: {error!r}")
