"""Tell whether the freezer of control groups holds a process: `docker pause`, containerd, and some schedulers use it.

/proc/<pid>/stat does not show it: a frozen process is in state D under v1 and in state S under v2, as many others are
(tried with both on Linux 6.18). Its control group shows it, also if a group above it was frozen.
Sources: cgroup-v1/freezer-subsystem.rst, and `cgroup.events` in cgroup-v2.rst.
"""

from __future__ import annotations

from pathlib import Path

from zmon.agent.sources.cgroups import V2, controller_paths, v2_root
from zmon.agent.sources.reading import number_after, text_of

_V1_STATE, _V2_STATE = "D", "S"  # of a frozen process in /proc, by version of control groups


def is_frozen(process_folder: Path, state: str, cgroup_root: Path = Path("/sys/fs/cgroup")) -> bool:
    """Return True if a process in this state is frozen; False also if its group is not in this cgroup namespace."""
    if state not in (_V1_STATE, _V2_STATE):
        return False
    paths = controller_paths(text_of(process_folder / "cgroup"))
    if state == _V1_STATE:
        group = cgroup_root / "freezer" / paths.get("freezer", "").lstrip("/")
        return text_of(group / "freezer.state") == "FROZEN"
    group = v2_root(cgroup_root) / paths.get(V2, "").lstrip("/")
    return number_after("frozen", text_of(group / "cgroup.events")) == 1
