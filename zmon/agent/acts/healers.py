"""Healers: programs that restart ranks on their own, by what they leave in the environment of a rank.

Nothing is done to a job of theirs, because two healers of one job heal it to death. Each variable was looked up in the
source of its healer: torchft 0.2.0 (manager.py, torchx.py), nvidia-resiliency-ext 0.4.1 (fault_tolerance/data.py and
launcher.py), dlrover 0.6.1 (its constants and its elastic_run) and horovod 0.28.1
(runner/gloo_run.py). The in-process restart of nvidia-resiliency-ext sets no variable, and is not noticed.
"""

from __future__ import annotations

from collections.abc import Mapping

HEALERS: Mapping[bytes, str] = {  # by the beginning of the name of a variable
    b"TORCHFT_": "torchft",  # TORCHFT_LIGHTHOUSE, which its manager needs, and its timeouts
    b"FT_LAUNCHER_IPC_SOCKET=": "NVIDIA's resiliency extension (ft_launcher)",
    b"FT_RANK_MONITOR_IPC_SOCKET=": "NVIDIA's resiliency extension (ft_launcher)",
    b"DLROVER_MASTER_ADDR=": "DLRover",
    b"HOROVOD_ELASTIC=": "Horovod Elastic",
}
RESTARTS = b"TORCHELASTIC_RESTART_COUNT="  # torchrun gives it to each of its ranks


def healer(environ: bytes) -> str | None:
    """Return the healer whose variables are in the content of /proc/<pid>/environ, or None."""
    for variable in environ.split(b"\0"):
        for beginning, name in HEALERS.items():
            if variable.startswith(beginning):
                return name
    return None
