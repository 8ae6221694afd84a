"""A sharding plan as text: tables with aligned columns, and sizes with units."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict
from itertools import groupby

from trainer.scale.sharding.plan import Plan, RankLoad
from trainer.sharding import Placement

_MAX_RANKS = 8  # a text has at most this many ranks


def as_text(plan: Plan, rows: Sequence[int], row_bytes: Sequence[int]) -> str:
    """Return the plan and its prediction as text: a line for each placement, then a line for each rank.

    `rows` has the rows of each table, `row_bytes` has the bytes of a row of each table.
    """
    tables_of: dict[Placement, list[int]] = {}
    for table, placement in enumerate(plan.tables):
        tables_of.setdefault(placement, []).append(table)
    placement_rows = []
    for placement in sorted(tables_of, key=lambda placement: (placement.kind, placement.ranks)):
        tables = tables_of[placement]
        num_rows = sum(rows[table] for table in tables)
        size = in_bytes(sum(rows[table] * row_bytes[table] for table in tables))
        ranks = _numbers(placement.ranks)
        placement_rows.append((placement.kind, ranks, str(len(tables)), f"{num_rows:,}", size, _numbers(tables)))
    lines = [f"{len(plan.tables)} tables on {plan.num_ranks} ranks"]
    lines += columns([("kind", "ranks", "tables", "rows", "bytes", "which"), *placement_rows], left=(0, 1, 5))
    if plan.predicted:
        lines += ["", "predicted for a step, without the dense layers"]
        head = ("rank", "tables", "lookups", "sent", "received", "all-reduced", "time", "memory")
        seconds = [load.seconds for load in plan.predicted]
        lines += table_of_slowest(head, seconds, lambda rank: _load_row(rank, plan.predicted[rank]))
        lines.append(_memory_line(plan.predicted))
    return "\n".join(lines)


def in_bytes(size: float) -> str:
    """Format a size with three digits and a unit."""
    for unit in ("B", "kB", "MB", "GB"):
        if size < 999.5:
            return f"{size:.3g} {unit}"
        size /= 1000
    return f"{size:.3g} TB" if size < 999.5 else f"{size:,.0f} TB"


def table_of_slowest(
    head: Sequence[str], seconds: Sequence[float], row: Callable[[int], Sequence[str]]
) -> Iterable[str]:
    """Yield the lines of a table with a row for each rank: the slowest ranks, in their order, and how many are left."""
    slowest = sorted(range(len(seconds)), key=lambda rank: (-seconds[rank], rank))[:_MAX_RANKS]
    yield from columns([head, *map(row, sorted(slowest))], left=())
    if len(seconds) > _MAX_RANKS:
        yield f"and {len(seconds) - _MAX_RANKS} faster ranks"


def _load_row(rank: int, load: RankLoad) -> tuple[str, ...]:
    sizes = (load.sent_bytes, load.received_bytes, load.reduced_bytes)
    return (
        str(rank),
        str(len(load.tables)),
        f"{load.lookups:,}",
        *map(in_bytes, sizes),
        f"{load.seconds * 1e3:.3g} ms",
        in_bytes(load.memory_bytes),
    )


def _memory_line(predicted: Sequence[RankLoad]) -> str:
    """Return a line with the parts of the memory of the rank that needs most memory."""
    rank = max(range(len(predicted)), key=lambda rank: (predicted[rank].memory_bytes, -rank))
    sizes = asdict(predicted[rank].memory)
    parts = [f"{name} {in_bytes(size)}" for name, size in sizes.items() if size or name not in ("host", "disk")]
    return f"memory of rank {rank}: {', '.join(parts)}"


def columns(rows: Sequence[Sequence[str]], left: Sequence[int]) -> Iterable[str]:
    """Yield lines with aligned cells. Columns in `left` are aligned to the left, the others to the right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        cells = [
            cell.ljust(width) if column in left else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        yield "  ".join(cells).rstrip()


def _numbers(numbers: Iterable[int]) -> str:
    """Return numbers with ranges, such as 0-3, 7."""
    # Consecutive numbers have an equal difference to their index.
    groups = groupby(enumerate(sorted(numbers)), key=lambda item: item[1] - item[0])
    runs = [[number for _, number in group] for _, group in groups]
    return ", ".join(f"{run[0]}-{run[-1]}" if len(run) > 1 else str(run[0]) for run in runs)
