"""The process groups of a rank by the numbers that they have in its box."""

from __future__ import annotations

from zmon.box import BoxWriter, layout


class Groups:
    """The first eight; the ninth and later ones have no number."""

    def __init__(self, box: BoxWriter) -> None:
        self._box = box
        self._known: list[tuple[str, int]] = []
        self._write()

    def number(self, name: str, size: int) -> int:
        """Of this group, which is new where it has none yet."""
        if (name, size) in self._known:
            return self._known.index((name, size))
        if len(self._known) == layout.MAX_GROUPS:
            return layout.NONE
        self._known.append((name, size))
        self._write()
        return len(self._known) - 1

    def _write(self) -> None:
        flat: list[bytes | int] = []
        for name, size in self._known:
            flat += (layout.field(name, 48), size)
        self._box.groups(*flat, *[b"", 0] * (layout.MAX_GROUPS - len(self._known)))
