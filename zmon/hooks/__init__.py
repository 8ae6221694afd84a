"""What zmon learns without the job's help: its collectives, its device, its stacks.

`attach` begins the watch and puts the hooks in place; each of them calls the probe and nothing else.
"""

from __future__ import annotations

import importlib

from zmon import probe

HOOKS = ("device", "collectives", "worker_server")  # loaded by attach alone: they need torch, daemons do not


def attach(job_id: str | None = None, labels: dict[str, str] | None = None) -> bool:
    """Begin to watch this rank; call it first, before the process group. False, said once, if that cannot be."""
    if not probe.attach_box(job_id, labels):
        return False
    try:
        import torch  # noqa: F401 - a job without torch has steps and phases, and no collectives
    except ImportError:
        return True
    for name in HOOKS:
        try:
            importlib.import_module(f"zmon.hooks.{name}").install()
        except Exception as error:
            probe.complain(f"{name} cannot be watched in this job: {error!r}")
    return True
