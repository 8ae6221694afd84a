"""Which kind each table has, which ranks hold it, and what that is predicted to cost: to print, save, edit and load.

The file is YAML, a line a table:

    ranks: 4
    tables:
    - {table: 0, kind: row_wise, ranks: [0, 1, 2, 3]}
    - {table: 1, kind: table_wise, ranks: [2]}

Raises ConfigError for one that does not fit the tables or the ranks.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

import yaml

from trainer.errors import ConfigError
from trainer.sharding.kind import Kind, Shard


@dataclass(frozen=True)
class Placed:
    """One table."""

    kind: str
    ranks: tuple[int, ...]  # that hold it, in the order of its shards


@dataclass(frozen=True)
class Memory:
    """What a rank has at most, in bytes."""

    base: int  # beside tables: the process, the dense layers
    weights: int
    state: int  # of their optimizer
    batch: int  # ids, vectors and gradients


@dataclass(frozen=True)
class Load:
    """What a step is predicted to be for one rank, and what it keeps."""

    tables: tuple[int, ...]  # that it has rows of
    lookups: int  # ids looked up on it
    sent_bytes: int  # in all-to-alls, its own part included
    received_bytes: int
    reduced_bytes: int  # of tables that every rank has: their gradients, in all-reduces with those of the dense layers
    seconds: float  # of lookups, updates, exchange and that reduction; not of the dense layers
    memory: Memory

    @property
    def memory_bytes(self) -> int:
        """In all."""
        return self.memory.base + self.memory.weights + self.memory.state + self.memory.batch


@dataclass(frozen=True)
class Plan:
    """All tables, in their order; `predicted` by rank, empty where nobody has predicted it."""

    num_ranks: int
    tables: tuple[Placed, ...]
    predicted: tuple[Load, ...] = ()

    def as_json(self) -> list[dict[str, Any]]:
        """The prediction, a mapping for each rank, as zmon.plan() takes it: to be compared with what comes.

        Without seconds: what is measured of a rank is its own time, dense layers included and exchange left out, and
        these are the other way round.
        """
        return [
            {
                "tables": list(load.tables),
                "lookups": load.lookups,
                "sent_bytes": load.sent_bytes,
                "received_bytes": load.received_bytes,
                "memory_bytes": load.memory_bytes,
            }
            for load in self.predicted
        ]

    def save(self, path: Path) -> None:
        """For people to edit; the prediction is not kept, for it is made anew."""
        tables = [
            {"table": table, "kind": placed.kind, "ranks": list(placed.ranks)}
            for table, placed in enumerate(self.tables)
        ]
        lines = [f"- {yaml.safe_dump(row, default_flow_style=True, sort_keys=False).strip()}" for row in tables]
        path.write_text("\n".join([f"ranks: {self.num_ranks}", "tables:", *lines, ""]))


def load(path: Path, kinds: Mapping[str, Kind], num_tables: int, num_ranks: int) -> Plan:
    """A plan that was saved, and perhaps edited."""
    try:
        told = yaml.safe_load(path.read_text())
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"cannot read the plan {path}", str(error), "Check sharding.plan") from error
    except yaml.YAMLError as error:
        raise ConfigError(f"the plan {path} is no YAML", " ".join(str(error).split()), "Mend the file") from error
    rows = told.get("tables") if isinstance(told, dict) else None
    if not isinstance(rows, list):
        raise ConfigError(f"the plan {path} names no tables", "it is no plan", "Save one with sharding.save")
    if told.get("ranks") != num_ranks:
        raise ConfigError(
            f"the plan {path} is for {told.get('ranks')} ranks", f"there are {num_ranks}", "Plan anew, or start as many"
        )
    placed: dict[int, Placed] = {}
    for row in rows:
        table, one = _placed(path, row, kinds, num_ranks)
        if table in placed:
            raise ConfigError(f"the plan {path} places table {table} twice", "it was edited", "Leave one of the lines")
        placed[table] = one
    if sorted(placed) != list(range(num_tables)):
        wrong = sorted(set(range(num_tables)) ^ set(placed))
        raise ConfigError(
            f"the plan {path} does not fit {num_tables} tables",
            f"see table {', '.join(map(str, wrong[:8]))}",
            "Plan anew, or mend the file",
        )
    return Plan(num_ranks, tuple(placed[table] for table in range(num_tables)))


def _placed(path: Path, row: Any, kinds: Mapping[str, Kind], num_ranks: int) -> tuple[int, Placed]:
    match row:
        case {"table": int(table), "kind": str(kind), "ranks": [*ranks]} if all(type(rank) is int for rank in ranks):
            pass
        case _:
            raise ConfigError(f"the plan {path} has a line {row!r}", "it is no table", "Write {table, kind, ranks}")
    if kind not in kinds:
        raise ConfigError(
            f"the plan {path} has kind {kind} for table {table}", "it is unknown", f"Use {', '.join(kinds)}"
        )
    if tuple(ranks) not in kinds[kind].choices(num_ranks):
        some = " or ".join(str(list(choice)) for choice in kinds[kind].choices(num_ranks)[:4])
        raise ConfigError(
            f"the plan {path} has table {table} on ranks {ranks}",
            f"{kind} is not spread so",
            f"Write for example {some}",
        )
    return table, Placed(kind, tuple(ranks))


def shards_of(plan: Plan, kinds: Mapping[str, Kind], rows: Sequence[int]) -> tuple[Shard, ...]:
    """All shards of tables that lie spread out, by rank, then by table; of those that are on every rank, none."""
    shards = (
        shard
        for table, placed in enumerate(plan.tables)
        if not kinds[placed.kind].replicated
        for shard in kinds[placed.kind].shards(table, rows[table], placed.ranks)
    )
    return tuple(sorted(shards, key=lambda shard: (shard.rank, shard.table, shard.first_row)))


_SHOWN = 8  # ranks: of more, those with the longest step


def as_text(plan: Plan, rows: Sequence[int], row_bytes: int) -> str:
    """The plan and its prediction for people: a line for tables that are placed alike, then one a rank.

    `rows` of each table; `row_bytes` are those of one row.
    """
    alike: dict[Placed, list[int]] = {}
    for table, placed in enumerate(plan.tables):
        alike.setdefault(placed, []).append(table)
    by_kind = sorted(alike.items(), key=lambda one: (one[0].kind, one[0].ranks))
    placed_rows = []
    for placed, tables in by_kind:
        num_rows = sum(rows[table] for table in tables)
        size = in_bytes(num_rows * row_bytes)
        ranks = _numbers(placed.ranks)
        placed_rows.append((placed.kind, ranks, str(len(tables)), f"{num_rows:,}", size, _numbers(tables)))
    lines = [f"{len(plan.tables)} tables on {plan.num_ranks} ranks"]
    lines += _columns([("kind", "ranks", "tables", "rows", "bytes", "which"), *placed_rows], left=(0, 1, 5))
    if plan.predicted:
        slowest = sorted(range(plan.num_ranks), key=lambda rank: (-plan.predicted[rank].seconds, rank))
        shown = sorted(slowest[:_SHOWN])
        lines += ["", "predicted for a step, without the dense layers"]
        head = ("rank", "tables", "lookups", "sent", "received", "all-reduced", "time", "memory")
        lines += _columns([head, *(_load_row(rank, plan.predicted[rank]) for rank in shown)], left=())
        if len(shown) < plan.num_ranks:
            lines.append(f"and {plan.num_ranks - len(shown)} ranks with less")
        lines.append(_memory_line(plan.predicted))
    return "\n".join(lines)


def in_bytes(size: float) -> str:
    """Three digits and a unit."""
    for unit in ("B", "kB", "MB", "GB"):
        if size < 999.5:
            return f"{size:.3g} {unit}"
        size /= 1000
    return f"{size:.3g} TB" if size < 999.5 else f"{size:,.0f} TB"


def _load_row(rank: int, load: Load) -> tuple[str, ...]:
    sizes = (load.sent_bytes, load.received_bytes, load.reduced_bytes)
    return (
        str(rank),
        str(len(load.tables)),
        f"{load.lookups:,}",
        *map(in_bytes, sizes),
        f"{load.seconds * 1e3:.3g} ms",
        in_bytes(load.memory_bytes),
    )


def _memory_line(predicted: Sequence[Load]) -> str:
    """What the fullest rank's memory is made of."""
    rank = max(range(len(predicted)), key=lambda rank: (predicted[rank].memory_bytes, -rank))
    parts = ", ".join(f"{name} {in_bytes(size)}" for name, size in asdict(predicted[rank].memory).items())
    return f"memory of rank {rank}: {parts}"


def _columns(rows: Sequence[Sequence[str]], left: Sequence[int]) -> Iterable[str]:
    """Lines of cells below each other, numbers to the right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        cells = [
            cell.ljust(width) if place in left else cell.rjust(width)
            for place, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        yield "  ".join(cells).rstrip()


def _numbers(numbers: Iterable[int]) -> str:
    """0-3, 7"""
    runs = groupby(enumerate(sorted(numbers)), key=lambda one: one[1] - one[0])
    ends = [[number for _, number in run] for _, run in runs]
    return ", ".join(f"{run[0]}-{run[-1]}" if len(run) > 1 else str(run[0]) for run in ends)
