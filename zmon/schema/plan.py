"""What the trainer said that a step would be: its plan of which rank has which tables, or experts.

Frozen data only, and how large it may be. A column has a place for each rank, 0 … world_size − 1. Seconds and bytes;
`None` where the trainer did not say.
"""

from __future__ import annotations

from dataclasses import dataclass

PLAN_FILE = "plan.json"  # beside the boxes of one start
MOST_PLAN_BYTES = 1 << 17  # of the file: the plan of 1,024 ranks has 60 kB without names
MOST_AMOUNT = 1 << 62  # as of the counts in a box


@dataclass(frozen=True, slots=True)
class Plan:
    """A step of every rank as it was predicted."""

    lookups: tuple[int | None, ...]
    sent_bytes: tuple[int | None, ...]  # in all-to-alls, own chunk included
    received_bytes: tuple[int | None, ...]
    seconds: tuple[float | None, ...]  # of its own, waiting for nobody
    memory_bytes: tuple[int | None, ...]
    tables: tuple[tuple[str, ...], ...]  # names, the first ones where there are many
    num_tables: tuple[int | None, ...]  # all of them
    totals: dict[str, float]  # of the whole job, by the names that the trainer gave them
