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

# NCCL needs one size of an all_reduce on all ranks. Of the other operations with one size, each has a form that takes a
# list of tensors, whose sizes may differ.
SAME_SIZE_ON_GPUS = ("all_reduce",)
_UNEVEN_OPS = ("all_to_all", "all_gather", "reduce_scatter")  # ranks may pass different sizes to these
_NUM_EVEN_STEPS = 10  # operations that had equal sizes in so many recent steps are expected to have them


class Contribution(NamedTuple):
    """The collective that one rank entered at one position in a group's sequence."""

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
    """The ranks that are in different collectives at the same position in a group's sequence."""

    group: str
    sequence: int
    minority: list[RankState]  # empty if no kind of collective has a majority
    differences: str


def first_mismatch(contributions: Iterable[Contribution]) -> Mismatch | None:
    """Return the mismatch of the lowest group and sequence; None if no contributions at one position differ.

    Operations without a sequence have no position.
    """
    positions: defaultdict[tuple[str, int], list[Contribution]] = defaultdict(list)
    for contribution in contributions:
        if contribution.group and contribution.sequence:
            positions[contribution.group, contribution.sequence].append(contribution)
    for (group, sequence), entered in sorted(positions.items(), key=lambda item: item[0]):
        kinds = Counter(contribution.kind for contribution in entered)
        if len(kinds) < 2:
            continue
        (usual, count), *_ = kinds.most_common()
        minority = [c.rank for c in entered if c.kind != usual] if 2 * count > len(entered) else []
        parts = [
            f"{_kind_text(kind)}: {ranks_text(sorted(c.rank.rank for c in entered if c.kind == kind))}"
            for kind, _ in kinds.most_common()
        ]
        return Mismatch(group, sequence, minority, "; ".join(parts))
    return None


def _kind_text(kind: tuple[str, int | None]) -> str:
    op, num_bytes = kind
    return op if num_bytes is None else f"{op} of {num_bytes} bytes"


def even_ops(steps: Sequence[AlignedStep]) -> tuple[str, ...]:
    """Return the operations whose size may differ from rank to rank, but did not in these steps of the job.

    In the unfinished step, another size of such an operation is an error. Returns () if there are fewer than ten steps.
    """
    if sum(step.stands_for for step in steps) < _NUM_EVEN_STEPS:
        return ()
    spans = [span for step in steps for span in (step, step.mean) if span is not None]
    columns = {op: [span.sent_bytes[op] for span in spans if op in span.sent_bytes] for op in _UNEVEN_OPS}
    return tuple(op for op, sent in columns.items() if sent and all(0 < min(row) == max(row) for row in sent))
