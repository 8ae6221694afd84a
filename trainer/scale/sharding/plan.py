"""The sharding plan: the kind and the ranks of each table, with the predicted cost; to save, edit and load.

The file is YAML with a line for each table:

    ranks: 4
    tables:
    - {table: 0, kind: row_wise, ranks: [0, 1, 2, 3]}
    - {table: 1, kind: table_wise, ranks: [2]}

A plan that does not fit the tables or the ranks raises ConfigError.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from trainer.errors import ConfigError
from trainer.registry import KINDS
from trainer.sharding import Placement


@dataclass(frozen=True)
class Memory:
    """The peak memory of a rank, in bytes."""

    base: int  # the process and the dense layers, without tables
    weights: int  # weights of the tables
    state: int  # optimizer state of the tables
    batch: int  # ids, vectors and gradients
    host: int = 0  # weights and state in the memory of its host, in addition to its own
    disk: int = 0  # weights and state on a disk


@dataclass(frozen=True)
class RankLoad:
    """The predicted load of one rank in a step, and its memory."""

    tables: tuple[int, ...]  # tables with rows on this rank
    lookups: int  # ids looked up on it
    sent_bytes: int  # bytes sent in all-to-alls, including those that the rank sends to itself
    received_bytes: int
    reduced_bytes: int  # gradients of replicated tables, all-reduced with the gradients of the dense layers
    seconds: float  # time of lookups, updates, all-to-alls and that all-reduce; without the dense layers
    memory: Memory

    @property
    def memory_bytes(self) -> int:
        """The total memory of the rank."""
        return self.memory.base + self.memory.weights + self.memory.state + self.memory.batch


@dataclass(frozen=True)
class Plan:
    """The placement of all tables, in their order. `predicted` has the load of each rank, and may be empty."""

    num_ranks: int
    tables: tuple[Placement, ...]
    predicted: tuple[RankLoad, ...] = ()

    def as_json(self) -> list[dict[str, Any]]:
        """Return the prediction for zmon.plan(), a mapping for each rank, which zmon compares with measurements.

        It omits the seconds, because they cannot be compared: the measured self time of a rank includes the dense
        layers and excludes communication, and the predicted seconds are the opposite.
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
        """Write the plan to a file that users can edit, without the prediction, which a load computes again.

        Raises ConfigError if the file cannot be written.
        """
        tables = [
            {"table": table, "kind": placement.kind, "ranks": list(placement.ranks)}
            for table, placement in enumerate(self.tables)
        ]
        lines = [f"- {yaml.safe_dump(row, default_flow_style=True, sort_keys=False).strip()}" for row in tables]
        try:
            path.write_text("\n".join([f"ranks: {self.num_ranks}", "tables:", *lines, ""]))
        except OSError as error:
            raise ConfigError(f"cannot write {path}", str(error.strerror), "Check the path of the plan") from error


def load_plan(path: Path, num_tables: int, num_ranks: int, ranks_per_host: int) -> Plan:
    """Load a plan that was saved and perhaps edited."""
    try:
        content = yaml.safe_load(path.read_text())
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"cannot read the plan {path}", str(error), "Check sharding.plan") from error
    except (yaml.YAMLError, ValueError) as error:  # the latter: a date that does not exist
        line = " ".join(str(error).split())
        raise ConfigError(f"the plan {path} is not valid YAML", line, "Fix the file") from error
    rows = content.get("tables") if isinstance(content, dict) else None  # a row is a line of the file
    if not isinstance(rows, list):
        raise ConfigError(f"the plan {path} has no tables", "it is not a plan", "Save one with sharding.save")
    if content.get("ranks") != num_ranks:
        raise ConfigError(
            f"the plan {path} is for {content.get('ranks')} ranks",
            f"this job has {num_ranks}",
            "Create a new plan, or start as many ranks as the plan has",
        )
    placements: dict[int, Placement] = {}
    for row in rows:
        table, placement = _parse_placement(path, row, num_ranks, ranks_per_host)
        if table in placements:
            raise ConfigError(f"the plan {path} places table {table} twice", "it was edited", "Remove one of the lines")
        placements[table] = placement
    if sorted(placements) != list(range(num_tables)):
        wrong = sorted(set(range(num_tables)) ^ set(placements))  # tables that are missing, or that do not exist
        raise ConfigError(
            f"the plan {path} does not fit {num_tables} tables",
            f"check table {', '.join(map(str, wrong[:8]))}",
            "Create a new plan, or fix the file",
        )
    return Plan(num_ranks, tuple(placements[table] for table in range(num_tables)))


def _parse_placement(path: Path, row: Any, num_ranks: int, ranks_per_host: int) -> tuple[int, Placement]:
    """Return the table and the placement of a line."""
    match row:
        case {"table": int(table), "kind": str(kind), "ranks": [*ranks]} if all(type(rank) is int for rank in ranks):
            pass
        case _:
            raise ConfigError(f"the plan {path} has a line {row!r}", "it is not a table", "Write {table, kind, ranks}")
    if kind not in KINDS:
        raise ConfigError(
            f"the plan {path} has kind {kind} for table {table}", "it is unknown", f"Use {', '.join(KINDS)}"
        )
    choices = KINDS[kind].choices(num_ranks, ranks_per_host)
    if tuple(ranks) not in choices:
        examples = " or ".join(str(list(choice)) for choice in choices[:4])
        raise ConfigError(
            f"the plan {path} has table {table} on ranks {ranks}",
            f"{kind} does not allow these ranks",
            f"Write for example {examples}",
        )
    return table, Placement(kind, tuple(ranks))
