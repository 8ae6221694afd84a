"""Build the path of a file whose name comes from outside: a job id, the name of a curve, the id of an incident.

Everything that zmon writes under its data directory, and everything that it reads there by such a name, goes through
this function, so that no name leads elsewhere.
"""

from __future__ import annotations

from pathlib import Path

from zmon.errors import UsageError

MAX_NAME_BYTES = 255  # NAME_MAX of Linux


def child_path(folder: Path, name: str, suffix: str = "", prefix: str = "") -> Path:
    """Return the path of `prefix + name + suffix` in a folder. Raises UsageError if that would not lie in the folder.

    The name must not have a slash or a control character, must not be `.` or `..`, and must not be too long.
    """
    whole = f"{prefix}{name}{suffix}"
    size = len(whole.encode("utf-8", "replace"))
    if not name or "/" in whole or whole in (".", "..") or not whole.isprintable() or size > MAX_NAME_BYTES:
        raise UsageError(
            f"{name[:80]!r} cannot be the name of a file in {folder}",
            "it is empty or too long, or has a slash or a control character",
            "Choose another name",
        )
    return folder / whole
