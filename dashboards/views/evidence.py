"""The evidence of a finding: stacks as text, and all other fields as JSON."""

from collections.abc import Mapping
from dataclasses import dataclass

import msgspec
from msgspec import UNSET

from zmon.schema.evidence import Evidence
from zmon.schema.gathered import RankStack


@dataclass(frozen=True)
class EvidenceView:
    """The evidence of a finding in the form that a page shows."""

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
        """The ranks whose stack has been read."""
        return sorted(rank for rank, stack in self.stacks.items() if stack.stack)

    def as_json(self) -> str:
        """Return all fields except the stacks. They have only the ranks that the hub has chosen."""
        shown = msgspec.to_builtins(msgspec.structs.replace(self.evidence, stacks=UNSET, num_ranks_left_out=UNSET))
        if self.evidence.num_ranks_left_out:
            shown["ranks left out"] = self.evidence.num_ranks_left_out
        return msgspec.json.format(msgspec.json.encode(shown), indent=2).decode()


def stack_text(stack: RankStack) -> str:
    """Return the stack. If there is none, return one line with the reason."""
    return stack.stack or f"no stack: {stack.stack_error or 'its agent reports none'}"
