"""Numbers the process groups of a rank, as they are stored in its box."""

from __future__ import annotations

from zmon.box import BoxWriter, layout
from zmon.box.identity import field


class Groups:
    """The first eight process groups of a rank; later ones have no number."""

    def __init__(self, box: BoxWriter) -> None:
        self._box = box
        self._groups: list[tuple[str, int]] = []
        self._write()

    def number(self, name: str, size: int) -> int:
        """Return the number of this group; a new group gets the next number, or NONE if there are eight already."""
        if (name, size) in self._groups:
            return self._groups.index((name, size))
        if len(self._groups) == layout.MAX_GROUPS:
            return layout.NONE
        self._groups.append((name, size))
        self._write()
        return len(self._groups) - 1

    def _write(self) -> None:
        flat: list[bytes | int] = []
        for name, size in self._groups:
            flat += (field(name, 48), size)
        self._box.groups(*flat, *[b"", 0] * (layout.MAX_GROUPS - len(self._groups)))
