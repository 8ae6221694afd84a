"""Replace the paths of the machine that recorded, so that a recording says nothing about it."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from zmon.stack.replay import Recording

CHECKOUT = Path(__file__).parents[2]


def with_paths(recording: Recording, names: Mapping[str, str]) -> Recording:
    """Return the recording with these beginnings of paths replaced in all texts."""

    def replace_paths(value: Any) -> Any:
        if isinstance(value, str):
            for folder, name in names.items():
                value = value.replace(folder, name)
            return value
        if isinstance(value, dict):
            return {key: replace_paths(item) for key, item in value.items()}
        return [replace_paths(item) for item in value] if isinstance(value, list | tuple) else value

    plain = msgspec.to_builtins(recording, builtin_types=(bytes,))
    return msgspec.convert(replace_paths(plain), Recording)


def paths_of_this_machine() -> dict[str, str]:
    """Return the folders and control groups of this machine, and names for them that say nothing about it."""
    groups = (line.rpartition(":")[2] for line in Path("/proc/self/cgroup").read_text().splitlines())
    return {str(CHECKOUT): "/opt/zmon", sys.base_prefix: "/usr", **{path: "/job" for path in groups if path != "/"}}
