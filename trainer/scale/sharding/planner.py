"""The planner: chooses a kind and ranks for each table, to minimize the predicted seconds of the slowest rank.

    options.py    the options of each table
    starts.py     several choices of an option for each table, and their first placements
    partition.py  three ways to distribute the tables of single ranks
    swaps.py      swaps tables between the slowest rank and others
    repair.py     gives tables of the slowest rank another option

Every choice of options is placed in three ways, and each result is repaired. The best one is the plan. A choice whose
lower bound is hardly below the best plan so far is left out.

The planner is pure: the same arguments give the same plan on every rank. If nothing fits, it raises ConfigError.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from trainer.errors import ConfigError, require
from trainer.registry import KINDS
from trainer.scale.sharding.assignment import Assignment, Limits, Score, score
from trainer.scale.sharding.cost import MEMORY, Load, layouts, plan_cost
from trainer.scale.sharding.options import Option, bounds, options_of
from trainer.scale.sharding.plan import Memory, Plan, RankLoad
from trainer.scale.sharding.repair import Repair
from trainer.scale.sharding.starts import selections, starts
from trainer.scale.sharding.step import Step
from trainer.scale.sharding.swaps import swap_tables
from trainer.scale.sharding.text import in_bytes
from trainer.scale.sharding.workload import Machine, Table, Workload
from trainer.sharding import Kind

AUTO = "auto"
Pair = tuple[Table, str]  # a table, and its kind or auto
_MIN_DIVIDED = 0.125  # ratio of a rank's mean time or memory; a smaller table is not worth the search for a division
_MIN_GAIN = 0.005  # ratio of a step; less is not worth another choice of options
RESERVE = 0.15  # ratio of free memory to leave, because a prediction may be wrong by this ratio


@dataclass(frozen=True)
class ShardingConfig:
    kind: str = AUTO  # one kind for all tables, or one for each, separated by commas; auto: the planner chooses
    plan: str = ""  # a file to load the plan from
    save: str = ""  # a file to save the plan to
    memory_bytes: int = 0  # total memory of a rank; 0: its part of the free memory of its host
    memory_bandwidth: float = 8e9  # bytes/s of a rank for random rows, with sorting: measured with torch on one core
    lookup_seconds: float = 1e-7  # seconds of an id in addition to reading its row: measured with torch on one core
    network_bandwidth: float = 1e9  # bytes/s of a rank on its host: measured 1.0 to 1.5e9 with gloo over loopback
    flops: float = 1.6e11  # operations/s of a rank in dense layers, for a dry run: measured with torch on one core
    host_bandwidth: float = 1.25e9  # bytes/s of a host to other hosts, shared by its ranks: 10 Gbit Ethernet
    disk_bandwidth: float = 1.2e8  # bytes/s of a rank for rows on a disk, 4 KiB each: measured on a virtual disk

    def __post_init__(self) -> None:
        for kind in self.kind.split(","):
            require(kind in (AUTO, *KINDS), "sharding.kind", self.kind, " or ".join((AUTO, *KINDS)))
        require(self.memory_bytes >= 0, "sharding.memory_bytes", self.memory_bytes, "0 or more")
        for name in ("memory_bandwidth", "network_bandwidth", "host_bandwidth", "disk_bandwidth", "flops"):
            value, unit = getattr(self, name), "operations" if name == "flops" else "bytes"
            require(0 < value < float("inf"), f"sharding.{name}", value, f"above 0, in {unit} per second")
        require(0 <= self.lookup_seconds < 1, "sharding.lookup_seconds", self.lookup_seconds, "0 or more, and below 1")

    def kinds(self, num_tables: int) -> tuple[str, ...]:
        """Return the kind of each table. Raises ConfigError if their number does not fit."""
        kinds = tuple(self.kind.split(","))
        require(len(kinds) in (1, num_tables), "sharding.kind", self.kind, f"one kind, or one for each of {num_tables}")
        return kinds if len(kinds) == num_tables else kinds * num_tables

    def machine(self, ranks_per_host: int) -> Machine:
        """Return the hardware that the planner assumes."""
        return Machine(
            memory_bandwidth=self.memory_bandwidth,
            lookup_seconds=self.lookup_seconds,
            network_bandwidth=self.network_bandwidth,
            host_bandwidth=self.host_bandwidth,
            ranks_per_host=ranks_per_host,
            disk_bandwidth=self.disk_bandwidth,
        )

    def limit(self, free_bytes: int, ranks_per_host: int, base_bytes: int) -> int:
        """Return the maximum total bytes of a rank.

        `free_bytes` is the free memory of its host, `base_bytes` is what the rank uses already.
        """
        return self.memory_bytes or base_bytes + int(free_bytes * (1 - RESERVE)) // ranks_per_host


def choose(
    workload: Workload,
    machine: Machine,
    kinds: Sequence[str],
    memory_bytes: int,
    base_bytes: int,
    host_memory_bytes: int = 0,
    disk_bytes: int = 0,
) -> Plan:
    """Return the plan for these tables, with its prediction.

    `kinds` has the kind of each table, or auto. `memory_bytes` is the maximum total memory of a rank, and `base_bytes`
    is its memory without tables. `host_memory_bytes` and `disk_bytes` are what a rank may use of the memory of its host
    and of the disk, for tables with a `host_share` or a `disk_share`. All ranks must pass the same arguments.
    """
    step, limits = Step(workload, machine), Limits(memory_bytes - base_bytes, host_memory_bytes, disk_bytes)
    pairs = list(zip(workload.tables, kinds, strict=True))
    options = _options(pairs, workload, machine, step, limits.room)
    # Large tables first, in an order that does not depend on the numbers of unequal tables.
    order = sorted(range(len(pairs)), key=lambda index: (_sort_key(*pairs[index]), index))
    assignment = _best_assignment([options[pairs[index]] for index in order], step, limits)
    if limits.excess(assignment.loads).any():
        tables = [workload.tables[index] for index in order]
        raise _no_room(assignment, order, tables, limits, base_bytes)
    placement_of = dict(zip(order, assignment.placements(), strict=True))
    plan = Plan(workload.num_ranks, tuple(placement_of[index] for index in range(len(order))))
    return predict(plan, workload, machine, base_bytes)


def _sort_key(table: Table, kind: str) -> tuple[float, float, float, float, float, str]:
    return -table.rows, -table.dim, -table.pooling, table.host_share, table.disk_share, kind


def _best_assignment(options: Sequence[Sequence[Option]], step: Step, limits: Limits) -> Assignment:
    """Return the assignment with the lowest score. If it has bytes that do not fit, nothing fits."""
    results: list[Assignment] = []
    for selected in selections(options, step, limits):
        if not results or not _is_beaten(selected, step, min(score(result, step, limits) for result in results)):
            results += [swap_tables(start, step, limits) for start in starts(selected, limits).values()]
    repaired = Repair(options, step, limits).repair(results)
    return min(repaired, key=lambda result: score(result, step, limits))


def _is_beaten(selected: Sequence[Option], step: Step, lowest: Score) -> bool:
    """Return True if no choice of ranks for these options can have a score that is lower by `_MIN_GAIN`."""
    slowest = lowest.nanoseconds[0]
    return not lowest.excess_bytes and max(bounds(selected, step)) * 1e9 >= slowest * (1 - _MIN_GAIN)


def _options(
    pairs: Sequence[Pair], workload: Workload, machine: Machine, step: Step, room: int
) -> dict[Pair, list[Option]]:
    """Return all options of each table with its kind.

    If there is a choice, a table is divided only if it needs `_MIN_DIVIDED` of the time or the memory of a rank.
    """
    whole = {name: kind for name, kind in KINDS.items() if _is_whole(kind, workload, machine)}
    options: dict[Pair, list[Option]] = {}
    for table, kind in set(pairs):
        kinds = whole if kind == AUTO else {kind: KINDS[kind]}
        options[table, kind] = options_of(kinds, table, workload, machine, step)
    mean = sum(min(option.total_time for option in options[pair]) for pair in pairs) / workload.num_ranks
    divided = {name: kind for name, kind in KINDS.items() if name not in whole}
    for (table, kind), table_options in options.items():
        longest = max(option.longest_time for option in table_options)
        memory = min(int(option.peak_bytes[0]) for option in table_options)
        if kind == AUTO and (longest > _MIN_DIVIDED * mean or memory > _MIN_DIVIDED * room):
            table_options += options_of(divided, table, workload, machine, step)
    return options


def _is_whole(kind: Kind, workload: Workload, machine: Machine) -> bool:
    """Return True if a rank has the whole table or nothing of it."""
    first_layouts = layouts(kind, workload.tables[0], workload, machine)
    return kind.replicated or all(len(layout.groups[0]) == 1 for layout in first_layouts)


def predict(plan: Plan, workload: Workload, machine: Machine, base_bytes: int) -> Plan:
    """Return the plan with the predicted load and memory of each rank."""
    step, loads = Step(workload, machine), plan_cost(plan.tables, workload, machine)
    tables_of: list[list[int]] = [[] for _ in range(workload.num_ranks)]
    for number, (table, placement) in enumerate(zip(workload.tables, plan.tables, strict=True)):
        for shard in KINDS[placement.kind].shards(number, table.rows, table.dim, placement.ranks):
            tables_of[shard.rank].append(number)
    seconds = step.seconds(loads)
    sent, received = (sizes.sum(axis=0) for sizes in step.sent_and_received(loads))
    in_memory = loads[[Load.WEIGHTS, Load.STATE, Load.BATCH, Load.HOST_MEMORY, Load.DISK]]
    predicted = [
        RankLoad(
            tables=tuple(dict.fromkeys(tables_of[rank])),
            lookups=int(loads[Load.LOOKUPS, rank]),
            sent_bytes=round(sent[rank]) + int(loads[Load.MERGED, rank]),
            received_bytes=round(received[rank]) + int(loads[Load.MERGED, rank]),
            reduced_bytes=int(loads[Load.REDUCED, rank]),
            seconds=float(seconds[rank]),
            memory=Memory(base_bytes, *in_memory[:, rank].tolist()),
        )
        for rank in range(workload.num_ranks)
    ]
    return replace(plan, predicted=tuple(predicted))


def check_fits(plan: Plan, memory_bytes: int) -> None:
    """Raise ConfigError if a predicted plan, such as one from a file, needs more than `memory_bytes` on a rank."""
    for rank, load in enumerate(plan.predicted):
        if load.memory_bytes > memory_bytes:
            raise _too_large(load.memory_bytes, memory_bytes, f", rank {rank}", load.memory.base)


def _no_room(
    assignment: Assignment, numbers: Sequence[int], tables: Sequence[Table], limits: Limits, base_bytes: int
) -> ConfigError:
    """Return the error for the rank that needs most memory in the best assignment; it names its largest table.

    If there is room in the memory of all ranks, the error is about the memory of the hosts, or about the disks.
    """
    is_too_small = (assignment.loads[MEMORY:] - limits.rooms[:, None]).max(axis=1) > 0
    tier = int(is_too_small.argmax())  # the first one of memory, host memory and disk
    place = ("", " of host memory", " of a disk")[tier]
    base = base_bytes if tier == 0 else 0
    limit = base + int(limits.rooms[tier])
    load = MEMORY + tier
    rank = int(assignment.loads[load].argmax())
    sizes = []
    for option, group in zip(assignment.options, assignment.groups, strict=True):
        is_on_rank = option.shard_ranks[group] == rank
        sizes.append(int(option.fixed_loads[load, rank] + option.shard_loads[load, is_on_rank].sum()))
    largest = sizes.index(max(sizes))
    where = f"{place}, with table {numbers[largest]} of {tables[largest].rows:,} rows"
    return _too_large(base + int(assignment.loads[load, rank]), limit, where, base)


def _too_large(needed: float, limit: int, where: str, base_bytes: int) -> ConfigError:
    return ConfigError(
        "the tables do not fit into memory",
        f"a rank would need {in_bytes(needed)}{where}, but the limit is {in_bytes(limit)}"
        f" ({in_bytes(base_bytes)} of it are not for tables)",
        "Start more ranks, reduce embedding.rows or embedding.dim, set sharding.kind to auto,"
        " or raise sharding.memory_bytes",
    )
