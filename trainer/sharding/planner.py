"""The planner: chooses a kind and ranks for each table, to minimize the predicted seconds of the slowest rank.

It places the tables greedily, the most expensive one first (as in ZionEX, arXiv 2104.05158). Then it removes one table
after another and places it again, until no table moves. Each option is scored by a lower bound of the step's duration:
the slowest rank so far, and the mean of all ranks after the remaining tables at their lowest cost. The second bound
matters for the first tables, when every rank is still idle: splitting a table would look faster, but it adds work in
total. Ties are decided by the slowest rank, the next slowest one and so on, then by the fewest bytes, then by the
lowest ranks.

The planner takes the best of three starts: all options; for each table only the options with the least total work; and
the options with the least memory first.

It is pure: the same arguments give the same plan on every rank. If nothing fits, it raises ConfigError.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from trainer.errors import ConfigError, require
from trainer.sharding import KINDS, Memory, Placement, Plan, RankLoad
from trainer.sharding.cost import Cost, Machine, Table, Workload, table_cost, total, zero_cost
from trainer.sharding.plan import in_bytes

AUTO = "auto"
_MAX_ROUNDS = 10  # rounds of placing all tables again
_RESERVE = 0.15  # ratio of free memory to leave, because a prediction may be wrong by this ratio


@dataclass(frozen=True)
class ShardingConfig:
    kind: str = AUTO  # one kind for all tables, or one for each, separated by commas; auto: the planner chooses
    plan: str = ""  # a file to load the plan from
    save: str = ""  # a file to save the plan to
    memory_bytes: int = 0  # total memory of a rank; 0: its part of the free memory of its host
    memory_bandwidth: float = 8e9  # bytes/s of a rank for random rows: measured with torch on one core, with sorting
    lookup_seconds: float = 1e-7  # seconds of an id in addition to reading its row: from the same measurement
    network_bandwidth: float = 1e9  # bytes/s of a rank on its host: measured 1.0 to 1.5e9 with gloo over loopback
    host_bandwidth: float = 1.25e9  # bytes/s of a host to other hosts, shared by its ranks: 10 Gbit Ethernet

    def __post_init__(self) -> None:
        for kind in self.kind.split(","):
            require(kind in (AUTO, *KINDS), "sharding.kind", self.kind, " or ".join((AUTO, *KINDS)))
        require(self.memory_bytes >= 0, "sharding.memory_bytes", self.memory_bytes, "0 or more")
        for name in ("memory_bandwidth", "network_bandwidth", "host_bandwidth"):
            value = getattr(self, name)
            require(0 < value < float("inf"), f"sharding.{name}", value, "above 0, in bytes per second")
        require(0 <= self.lookup_seconds < 1, "sharding.lookup_seconds", self.lookup_seconds, "0 or more, and below 1")

    def kinds(self, num_tables: int) -> tuple[str, ...]:
        """Return the kind of each table. Raises ConfigError if their number does not fit."""
        kinds = tuple(self.kind.split(","))
        require(len(kinds) in (1, num_tables), "sharding.kind", self.kind, f"one kind, or one for each of {num_tables}")
        return kinds if len(kinds) == num_tables else kinds * num_tables

    def machine(self, ranks_per_host: int) -> Machine:
        """Return the hardware that the planner assumes."""
        return Machine(
            self.memory_bandwidth, self.lookup_seconds, self.network_bandwidth, self.host_bandwidth, ranks_per_host
        )

    def limit(self, free_bytes: int, ranks_per_host: int, base_bytes: int) -> int:
        """Return the maximum total bytes of a rank, given the free bytes of its host and the bytes it already uses."""
        return self.memory_bytes or base_bytes + int(free_bytes * (1 - _RESERVE)) // ranks_per_host


@dataclass(frozen=True, eq=False)
class _Option:
    placement: Placement
    cost: Cost


def choose(workload: Workload, machine: Machine, kinds: Sequence[str], memory_bytes: int, base_bytes: int) -> Plan:
    """Return the plan for these tables, with its prediction.

    `kinds` has the kind of each table, or auto. `memory_bytes` is the maximum total memory of a rank, and `base_bytes`
    is its memory without tables. All ranks must pass the same arguments.
    """
    pairs = list(zip(workload.tables, kinds, strict=True))
    options_of = {pair: _options(*pair, workload, machine) for pair in pairs}
    options = [options_of[pair] for pair in pairs]
    room = memory_bytes - base_bytes
    least = [min(total(option.cost.seconds) for option in of_table) for of_table in options]
    cheapest = [_cheapest(of_table, seconds) for of_table, seconds in zip(options, least, strict=True)]
    by_seconds = _descending(workload.tables, least)
    memory = [min(option.cost.memory.max() for option in of_table) for of_table in options]
    by_memory = _descending(workload.tables, memory)
    starts = [
        _greedy(options, by_seconds, room, workload.num_ranks, least),
        _greedy(cheapest, by_seconds, room, workload.num_ranks, least),
        _greedy(options, by_memory, room, workload.num_ranks, None),  # large cheap tables before others take the memory
    ]
    complete = [start for start in starts if len(start) == len(options)]
    if not complete:
        raise _no_room(options, starts[-1], by_memory[len(starts[-1])], workload, memory_bytes, base_bytes)
    ends = [_improved(options, start, by_seconds, room) for start in complete]
    plans = [Plan(workload.num_ranks, tuple(end[table].placement for table in range(len(options)))) for end in ends]
    return min((predict(plan, workload, machine, base_bytes) for plan in plans), key=_slowest)


def predict(plan: Plan, workload: Workload, machine: Machine, base_bytes: int) -> Plan:
    """Return the plan with the predicted load and memory of each rank."""
    pairs = list(zip(workload.tables, plan.tables, strict=True))
    costs = {
        (table, placement): table_cost(KINDS[placement.kind], placement.ranks, table, workload, machine)
        for table, placement in pairs
    }
    cost = _sum([costs[pair] for pair in pairs], workload.num_ranks)
    tables_of: list[list[int]] = [[] for _ in range(workload.num_ranks)]
    for table, placement in enumerate(plan.tables):
        size = workload.tables[table]
        for shard in KINDS[placement.kind].shards(table, size.rows, size.dim, placement.ranks):
            tables_of[shard.rank].append(table)
    loads = [
        RankLoad(
            tables=tuple(dict.fromkeys(tables_of[rank])),
            lookups=round(cost.lookups[rank]),
            sent_bytes=round(total(cost.sent[:, rank])),
            received_bytes=round(total(cost.received[:, rank])),
            reduced_bytes=round(cost.reduced[rank]),
            seconds=float(cost.seconds[rank]),
            memory=Memory(base_bytes, round(cost.weights[rank]), round(cost.state[rank]), round(cost.batch[rank])),
        )
        for rank in range(workload.num_ranks)
    ]
    return replace(plan, predicted=tuple(loads))


def _slowest(plan: Plan) -> tuple[int, int]:
    """Return the nanoseconds of the slowest rank, then the bytes of all ranks, as a key to compare plans."""
    loads = plan.predicted
    return round(max(load.seconds for load in loads) * 1e9), sum(load.sent_bytes + load.reduced_bytes for load in loads)


def check_fits(plan: Plan, memory_bytes: int) -> None:
    """Raise ConfigError if a predicted plan, such as one from a file, needs more than `memory_bytes` on a rank."""
    for rank, load in enumerate(plan.predicted):
        if load.memory_bytes > memory_bytes:
            raise _too_large(load.memory_bytes, memory_bytes, f"rank {rank}", load.memory.base)


def _no_room(
    options: Sequence[Sequence[_Option]],
    selected: dict[int, _Option],
    table: int,
    workload: Workload,
    memory_bytes: int,
    base_bytes: int,
) -> ConfigError:
    """Return the error for a table that fits on no rank beside the tables placed so far."""
    cost = _sum([option.cost for option in selected.values()], workload.num_ranks)
    needed = base_bytes + min((cost + option.cost).memory.max() for option in options[table])
    return _too_large(needed, memory_bytes, f"with table {table} of {workload.tables[table].rows:,} rows", base_bytes)


def _too_large(needed: float, limit: int, where: str, base_bytes: int) -> ConfigError:
    return ConfigError(
        "the tables do not fit into memory",
        f"a rank would need {in_bytes(needed)}, {where}, but the limit is {in_bytes(limit)}"
        f" ({in_bytes(base_bytes)} of it are not for tables)",
        "Start more ranks, reduce embedding.rows or embedding.dim, set sharding.kind to auto,"
        " or raise sharding.memory_bytes",
    )


def _options(table: Table, kind: str, workload: Workload, machine: Machine) -> list[_Option]:
    """Return all options for a table, of its kind or, for auto, of all kinds."""
    return [
        _Option(Placement(name, ranks), table_cost(KINDS[name], ranks, table, workload, machine))
        for name in (KINDS if kind == AUTO else (kind,))
        for ranks in KINDS[name].choices(workload.num_ranks, machine.ranks_per_host)
    ]


def _cheapest(options: Sequence[_Option], seconds: float) -> list[_Option]:
    """Return the options with the least total seconds of all ranks, which are best if there are many tables."""
    return [option for option in options if total(option.cost.seconds) <= seconds * (1 + 1e-9)]


def _descending(tables: Sequence[Table], sizes: Sequence[float]) -> list[int]:
    """Return the tables by descending size; tables of equal size are ordered by their properties, then by number."""

    def key(number: int) -> tuple[float, ...]:
        table = tables[number]
        return -sizes[number], -table.rows, -table.dim, -table.pooling, number

    return sorted(range(len(tables)), key=key)


def _greedy(
    options: Sequence[Sequence[_Option]],
    order: Sequence[int],
    room: float,
    num_ranks: int,
    least: Sequence[float] | None,
) -> dict[int, _Option]:
    """Return the best option of each table in this order; stop at the first table that does not fit.

    `least` has the lowest total seconds of each table. If it is None, the option with the least memory is chosen.
    """
    selected: dict[int, _Option] = {}
    cost, later_seconds = zero_cost(num_ranks), total(least or ())
    for table in order:
        later_seconds -= least[table] if least else 0.0
        best = _best(cost, options[table], room, later_seconds if least else None)
        if best is None:
            break
        selected[table] = best
        cost += best.cost
    return selected


def _improved(
    options: Sequence[Sequence[_Option]], selected: dict[int, _Option], order: Sequence[int], room: float
) -> dict[int, _Option]:
    """Place each table again while all others stay, until no table moves."""
    cost = _sum([option.cost for option in selected.values()], len(options[0][0].cost.lookups))
    for _ in range(_MAX_ROUNDS):
        previous, selected = selected, dict(selected)
        for table in order:
            others = cost - selected[table].cost
            selected[table] = (
                _best(others, [selected[table], *options[table]], room, later_seconds=0.0) or selected[table]
            )
            cost = others + selected[table].cost
        if selected == previous:
            break
    return selected


def _best(cost: Cost, options: Sequence[_Option], room: float, later_seconds: float | None) -> _Option | None:
    """Return the best option in addition to `cost`, or None if none fits; `later_seconds`: time of later tables."""
    scores = []
    for option in options:
        new_cost = cost + option.cost
        memory = round(new_cost.memory.max())
        if memory <= room:
            seconds = sorted((round(rank_seconds * 1e9) for rank_seconds in new_cost.seconds.tolist()), reverse=True)
            bound = (
                memory
                if later_seconds is None
                else round((total(new_cost.seconds) + later_seconds) / len(seconds) * 1e9)
            )
            scores.append(
                (bound if later_seconds is None else max(bound, seconds[0]), seconds, round(new_cost.moved), option)
            )
    return min(scores, key=lambda score: score[:3])[-1] if scores else None


def _sum(costs: Sequence[Cost], num_ranks: int) -> Cost:
    return sum(costs, start=zero_cost(num_ranks))
