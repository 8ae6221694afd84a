"""What zmon learns without the job's help: its collectives, its device, its stacks.

`attach` begins the watch and puts the hooks in place; each of them calls the probe and nothing else.
"""

from __future__ import annotations

import sys

from zmon import probe
from zmon.hooks import collectives, device, worker_server


def attach(job_id: str | None = None, labels: dict[str, str] | None = None) -> bool:
    """Begin to watch this rank; call it first, before the process group. False, said once, if that cannot be."""
    if not probe.attach_box(job_id, labels):
        return False
    try:
        import torch  # noqa: F401 - a job without torch has steps and phases, and no collectives
    except ImportError:
        return True
    for hook in (device, collectives, worker_server):
        try:
            hook.install()
        except Exception as error:
            name = hook.__name__.rsplit(".", 1)[1]
            print(f"zmon: {name} cannot be watched in this job: {error!r}", file=sys.stderr)
    return True
