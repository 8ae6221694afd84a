"""A collective that simulated ranks enter. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from zmon.schema.rank import EnteredCollective


@dataclass(eq=False)
class Collective:
    """The collective at one position of a group's sequence. `entries` has what each rank brought."""

    group: str
    sequence: int
    members: Sequence[int]
    entries: dict[int, EnteredCollective] = field(default_factory=dict)
    done_at: float | None = None

    @property
    def is_complete(self) -> bool:
        """True once every member has entered."""
        return len(self.entries) == len(self.members)

    @property
    def has_different_ops(self) -> bool:
        """True if the members brought different operations."""
        return len({entry.op for entry in self.entries.values()}) > 1

    @property
    def minority(self) -> list[int]:
        """The ranks that brought another size than the majority, or than the first one if there is no majority."""
        sizes = [entry.num_bytes for entry in self.entries.values()]
        usual = max(sizes, key=sizes.count)
        return [rank for rank, entry in self.entries.items() if entry.num_bytes != usual]
