"""Compare the collectives that ranks entered: whether they entered the same one, with the same size. Pure.

Endings and hangs share these rules: a mismatch may abort ranks (gloo) or make them wait for ever (NCCL).
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from zmon.detectors.wording import ranks_text
from zmon.schema.aligned_step import AlignedStep
from zmon.schema.rank import RankState

# On GPUs, all_gather and reduce_scatter may take lists of tensors, whose sizes may differ between ranks; all_reduce
# may not.
SAME_SIZE_ON_GPUS = ("all_reduce",)
# Operations whose size may differ between ranks: all_to_all, and on GPUs the other two.
_UNEVEN_OPS = ("all_to_all", "all_gather", "reduce_scatter")
_NUM_EVEN_STEPS = 10  # an operation counts as even if its sizes were equal on all ranks in this many recent steps


class Contribution(NamedTuple):
    """The collective that one rank entered at one position: a group, and a number in its sequence."""

    rank: RankState
    group: str
    sequence: int
    op: str
    num_bytes: int | None  # None if sizes may differ

    @property
    def kind(self) -> tuple[str, int | None]:
        """The values that must be equal on all ranks."""
        return self.op, self.num_bytes


class Mismatch(NamedTuple):
    """The ranks that entered different collectives at the same position."""

    group: str
    sequence: int
    minority: list[RankState]  # empty if no kind of collective has a majority
    differences: str  # the collectives with their ranks, for a summary


def first_mismatch(contributions: Iterable[Contribution]) -> Mismatch | None:
    """Return the mismatch with the lowest group and sequence, or None. Operations without a sequence are left out."""
    by_position: defaultdict[tuple[str, int], list[Contribution]] = defaultdict(list)
    for contribution in contributions:
        if contribution.group and contribution.sequence:
            by_position[contribution.group, contribution.sequence].append(contribution)
    for (group, sequence), entered in sorted(by_position.items(), key=lambda item: item[0]):
        kinds = Counter(contribution.kind for contribution in entered)
        if len(kinds) < 2:
            continue
        (usual, count), *_ = kinds.most_common()
        minority = [c.rank for c in entered if c.kind != usual] if 2 * count > len(entered) else []
        differences = "; ".join(_difference(kind, entered) for kind, _ in kinds.most_common())
        return Mismatch(group, sequence, minority, differences)
    return None


def _difference(kind: tuple[str, int | None], entered: Iterable[Contribution]) -> str:
    """Return one kind of collective with its ranks, such as `all_reduce of 8 bytes: ranks 0, 2`."""
    op, num_bytes = kind
    collective = op if num_bytes is None else f"{op} of {num_bytes} bytes"
    return f"{collective}: {ranks_text(sorted(c.rank.rank for c in entered if c.kind == kind))}"


def even_ops(steps: Sequence[AlignedStep]) -> tuple[str, ...]:
    """Return the operations whose size may differ between ranks, but was equal on all of them in these steps.

    In the step that does not end, their sizes must be equal too. Empty if there are too few steps.
    """
    if sum(step.stands_for for step in steps) < _NUM_EVEN_STEPS:
        return ()
    measured = [*steps, *(step.mean for step in steps if step.mean is not None)]
    sent_bytes = {op: [step.sent_bytes[op] for step in measured if op in step.sent_bytes] for op in _UNEVEN_OPS}
    return tuple(op for op, sent in sent_bytes.items() if sent and all(0 < min(row) == max(row) for row in sent))
