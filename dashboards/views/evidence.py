"""The evidence of a finding, whose shape is its detector's: stacks, rows of ranks, and all else as it came.

The one place of the dashboard that reads evidence.
"""

from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

import msgspec

MOST_RANKS = 16  # the culprit first: the incident and the page Ranks have them all


class Stack(msgspec.Struct, frozen=True):
    """The stack of one rank, or why there is none."""

    stack: str | None = None
    stack_error: str | None = None

    @property
    def text(self) -> str:
        """The stack, or one line."""
        return self.stack or f"no stack: {self.stack_error or 'its agent tells none'}"


@dataclass(frozen=True)
class Evidence:
    """What is known of a finding."""

    stacks: Mapping[str, Stack] = field(default_factory=dict)  # by rank
    ranks: Sequence[object] = ()
    shown: Mapping[str, object] = field(default_factory=dict)  # all but the stacks, as it came
    fields: tuple[str, ...] = ()  # the names of all, in alphabetical order

    @property
    def with_stacks(self) -> list[str]:
        """The ranks whose stack was read."""
        return sorted(rank for rank, stack in self.stacks.items() if stack.stack)

    def as_json(self, culprits: Collection[int]) -> str:
        """All but the stacks, for people; of many ranks the culprits and some others."""
        shown = dict(self.shown)
        if len(self.ranks) > MOST_RANKS:
            shown["ranks"] = sorted(self.ranks, key=lambda row: _rank(row) not in culprits)[:MOST_RANKS]
            shown["ranks left out"] = len(self.ranks) - MOST_RANKS
        return msgspec.json.format(msgspec.json.encode(shown), indent=2).decode()


def read(evidence: Mapping[str, object]) -> Evidence:
    """Evidence as the hub sends it. What has another shape than expected is shown as it came."""
    shown, ranks, stacks = dict(evidence), evidence.get("ranks"), dict[str, Stack]()
    with suppress(msgspec.ValidationError):  # a newer hub has another shape
        stacks = msgspec.convert(evidence.get("stacks") or {}, dict[str, Stack])
        shown.pop("stacks", None)
    return Evidence(stacks, ranks if isinstance(ranks, list) else (), shown, tuple(sorted(evidence)))


def _rank(row: object) -> object:
    return row.get("rank") if isinstance(row, dict) else None
