"""The evidence of a finding: the stacks as text, and all else as JSON."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass

import msgspec
from msgspec import UNSET

from zmon.schema.evidence import Evidence, RankStack

MOST_RANKS = 16  # the culprit first: the incident and the page Ranks have them all


@dataclass(frozen=True)
class EvidenceView:
    """The evidence of a finding, as a page shows it."""

    evidence: Evidence

    @property
    def fields(self) -> tuple[str, ...]:
        """The names of all fields that are set, in alphabetical order."""
        return tuple(sorted(self.evidence.names))

    @property
    def stacks(self) -> Mapping[str, RankStack]:
        """The stacks by rank."""
        return self.evidence.stacks or {}

    @property
    def with_stacks(self) -> list[str]:
        """The ranks whose stack was read."""
        return sorted(rank for rank, stack in self.stacks.items() if stack.stack)

    def as_json(self, culprits: Collection[int]) -> str:
        """All but the stacks, for people; of many ranks the culprits and some others."""
        evidence, ranks = msgspec.structs.replace(self.evidence, stacks=UNSET), self.evidence.ranks or ()
        if len(ranks) > MOST_RANKS:
            ranks = tuple(sorted(ranks, key=lambda row: row.rank not in culprits))[:MOST_RANKS]
            shown = msgspec.to_builtins(msgspec.structs.replace(evidence, ranks=ranks))
            shown["ranks left out"] = len(self.evidence.ranks or ()) - MOST_RANKS
        else:
            shown = msgspec.to_builtins(evidence)
        return msgspec.json.format(msgspec.json.encode(shown), indent=2).decode()


def stack_text(stack: RankStack) -> str:
    """The stack, or one line that says why there is none."""
    return stack.stack or f"no stack: {stack.stack_error or 'its agent tells none'}"
