"""The plan of a trainer: its last step, and a predicted step of each rank, with the tables or experts of the rank.

Frozen data only, and the limits of its size. A column has one value per rank, 0 … world_size − 1, or none at all if the
trainer predicts no step. Seconds and bytes; `None` where the trainer gave no value.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from itertools import chain

PLAN_FILE = "plan.json"  # beside the boxes of one launch
MAX_PLAN_BYTES = 1 << 17  # size of the file; the plan of 1,024 ranks has 60 kB without names
MAX_AMOUNT = 1 << 62  # the same limit as for the counts in a box
_OF_THE_JOB = ("totals", "steps")  # the fields that are no columns


@dataclass(frozen=True, slots=True)
class Plan:
    """A step of every rank as the trainer predicts it."""

    lookups: tuple[int | None, ...]
    sent_bytes: tuple[int | None, ...]  # bytes in all-to-alls, including a rank's own chunk
    received_bytes: tuple[int | None, ...]
    seconds: tuple[float | None, ...]  # self time
    memory_bytes: tuple[int | None, ...]
    tables: tuple[tuple[str, ...], ...]  # names; only the first ones if there are many
    num_tables: tuple[int | None, ...]  # including those without a name in `tables`
    totals: dict[str, float]  # the trainer's own names → value for the whole job
    steps: int | None = None  # the number of the job's last step; None: unknown


def check_plan(plan: Plan) -> None:
    """Raise ValueError if the columns differ in length, or an amount or a name is not valid."""
    columns = {field.name: getattr(plan, field.name) for field in fields(plan) if field.name not in _OF_THE_JOB}
    if len({len(column) for column in columns.values()}) != 1:
        raise ValueError("its columns differ in length")
    names = columns.pop("tables")
    if any(number is not None and not 0 <= number <= MAX_AMOUNT for number in chain(*columns.values())):
        raise ValueError("one of its amounts is negative or too large")
    if plan.steps is not None and not 0 < plan.steps <= MAX_AMOUNT:
        raise ValueError("the number of its steps is not positive, or too large")
    if any(not name.isprintable() for name in chain(*names)):
        raise ValueError("one of its table names has characters that cannot be printed")
