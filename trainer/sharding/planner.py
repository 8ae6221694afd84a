"""Chooses a kind and ranks for each table: the least predicted seconds of the slowest rank, within memory.

Greedy, the most expensive table first (as in ZionEX, arXiv 2104.05158); then one table after another is taken out and
placed anew, until that gains nothing. A choice is judged by how soon a step can still end after it: not before its
slowest rank, and not before the mean of all ranks with the cheapest of what is yet to come. The second keeps the first
tables, which find every rank idle, from being split for more work in all. Ties: the slowest rank, the next slowest and
so on; then fewest bytes, then the lowest ranks.

The best of three starts is taken: all kinds, for each table only what is least work in all, and least memory first.

Pure: the same arguments give the same plan on every rank. Raises ConfigError where nothing fits.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from trainer.errors import ConfigError, require
from trainer.sharding import KINDS, Load, Memory, Placed, Plan
from trainer.sharding.cost import Cost, Job, Machine, Table, cost_of, nothing, total
from trainer.sharding.plan import in_bytes

AUTO = "auto"
_ROUNDS = 10  # over all tables, of placing anew
_KEPT_FREE = 0.15  # of the memory that is free: a prediction may be that far out


@dataclass(frozen=True)
class ShardingConfig:
    kind: str = AUTO  # one for all tables, or one for each with commas between them; auto: the planner's choice
    plan: str = ""  # a file to take the plan from
    save: str = ""  # a file to write the plan to
    memory_bytes: int = 0  # that a rank may have in all; 0: its part of what its host has free
    memory_bandwidth: float = 8e9  # bytes/s of a rank in random rows: as measured, sorting and all, torch on one core
    lookup_seconds: float = 1e-7  # of an id beside its row's bytes: measured with it
    network_bandwidth: float = 1e9  # bytes/s of a rank on its host: 1.0 to 1.5e9 measured, gloo over loopback
    host_bandwidth: float = 1.25e9  # bytes/s of a host to others, shared by its ranks: 10 Gbit Ethernet

    def __post_init__(self) -> None:
        for kind in self.kind.split(","):
            require(kind in (AUTO, *KINDS), "sharding.kind", self.kind, " or ".join((AUTO, *KINDS)))
        require(self.memory_bytes >= 0, "sharding.memory_bytes", self.memory_bytes, "0 or more")
        for name in ("memory_bandwidth", "network_bandwidth", "host_bandwidth"):
            value = getattr(self, name)
            require(0 < value < float("inf"), f"sharding.{name}", value, "above 0, in bytes a second")
        require(0 <= self.lookup_seconds < 1, "sharding.lookup_seconds", self.lookup_seconds, "0 or more, and below 1")

    def kinds(self, num_tables: int) -> tuple[str, ...]:
        """That of each table. Raises ConfigError where there are not as many."""
        kinds = tuple(self.kind.split(","))
        require(len(kinds) in (1, num_tables), "sharding.kind", self.kind, f"one kind, or one for each of {num_tables}")
        return kinds if len(kinds) == num_tables else kinds * num_tables

    def machine(self, ranks_per_host: int) -> Machine:
        """What the planner reckons with."""
        return Machine(
            self.memory_bandwidth, self.lookup_seconds, self.network_bandwidth, self.host_bandwidth, ranks_per_host
        )

    def limit(self, free_bytes: int, ranks_per_host: int, base_bytes: int) -> int:
        """Bytes that a rank may have in all, given what its host has free beside what its ranks have already."""
        return self.memory_bytes or base_bytes + int(free_bytes * (1 - _KEPT_FREE)) // ranks_per_host


@dataclass(frozen=True, eq=False)
class _Option:
    placed: Placed
    cost: Cost


def choose(job: Job, machine: Machine, kinds: Sequence[str], memory_bytes: int, base_bytes: int) -> Plan:
    """The plan for these tables, with its prediction.

    `kinds` has one for each table, or auto; `memory_bytes` is what a rank may have in all, `base_bytes` what it needs
    beside tables. Every rank must be given the same.
    """
    of = {each: _options(*each, job, machine) for each in zip(job.tables, kinds, strict=True)}
    options = [of[each] for each in zip(job.tables, kinds, strict=True)]
    room = memory_bytes - base_bytes
    least = [min(total(option.cost.seconds) for option in some) for some in options]
    cheapest = [_cheapest(some, seconds) for some, seconds in zip(options, least, strict=True)]
    by_seconds = _descending(job.tables, least)
    by_memory = _descending(job.tables, [min(option.cost.memory.max() for option in some) for some in options])
    starts = [
        _greedy(options, by_seconds, room, job.num_ranks, least),
        _greedy(cheapest, by_seconds, room, job.num_ranks, least),
        _greedy(options, by_memory, room, job.num_ranks, None),  # large cheap tables before others take their room
    ]
    whole = [start for start in starts if len(start) == len(options)]
    if not whole:
        raise _no_room(options, starts[-1], by_memory[len(starts[-1])], job, memory_bytes, base_bytes)
    ends = [_placed_anew(options, start, by_seconds, room) for start in whole]
    plans = [Plan(job.num_ranks, tuple(end[table].placed for table in range(len(options)))) for end in ends]
    return min((predict(plan, job, machine, base_bytes) for plan in plans), key=_slowest)


def predict(plan: Plan, job: Job, machine: Machine, base_bytes: int) -> Plan:
    """A plan with what each rank's step and memory will be."""
    placed = zip(job.tables, plan.tables, strict=True)
    costs = {(table, one): cost_of(KINDS[one.kind], one.ranks, table, job, machine) for table, one in placed}
    placed = zip(job.tables, plan.tables, strict=True)
    cost = _sum([costs[each] for each in placed], job.num_ranks)
    held: list[list[int]] = [[] for _ in range(job.num_ranks)]
    for table, one in enumerate(plan.tables):
        for shard in KINDS[one.kind].shards(table, job.tables[table].rows, one.ranks):
            held[shard.rank].append(table)
    loads = [
        Load(
            tables=tuple(dict.fromkeys(held[rank])),
            lookups=round(cost.lookups[rank]),
            sent_bytes=round(total(cost.sent[:, rank])),
            received_bytes=round(total(cost.received[:, rank])),
            reduced_bytes=round(cost.reduced[rank]),
            seconds=float(cost.seconds[rank]),
            memory=Memory(base_bytes, round(cost.weights[rank]), round(cost.state[rank]), round(cost.batch[rank])),
        )
        for rank in range(job.num_ranks)
    ]
    return replace(plan, predicted=tuple(loads))


def _slowest(plan: Plan) -> tuple[int, int]:
    """Nanoseconds of the slowest rank; equal ones are told apart by bytes."""
    loads = plan.predicted
    return round(max(load.seconds for load in loads) * 1e9), sum(load.sent_bytes + load.reduced_bytes for load in loads)


def check_fits(plan: Plan, memory_bytes: int) -> None:
    """Refuse a predicted plan, one from a file for example, that needs more than `memory_bytes` on some rank."""
    for rank, load in enumerate(plan.predicted):
        if load.memory_bytes > memory_bytes:
            raise _too_large(load.memory_bytes, memory_bytes, f"rank {rank}", load.memory.base)


def _no_room(
    options: Sequence[Sequence[_Option]],
    chosen: dict[int, _Option],
    table: int,
    job: Job,
    memory_bytes: int,
    base_bytes: int,
) -> ConfigError:
    """For a table that fits nowhere beside those chosen."""
    cost = _sum([option.cost for option in chosen.values()], job.num_ranks)
    needed = base_bytes + min((cost + option.cost).memory.max() for option in options[table])
    return _too_large(needed, memory_bytes, f"with table {table} of {job.tables[table].rows:,} rows", base_bytes)


def _too_large(needed: float, limit: int, where: str, base_bytes: int) -> ConfigError:
    return ConfigError(
        "the tables do not fit into memory",
        f"a rank would need {in_bytes(needed)}, {where}, and may have {in_bytes(limit)}"
        f" ({in_bytes(base_bytes)} of it are not for tables)",
        "Start more ranks, take fewer embedding.rows or a smaller embedding.dim, let sharding.kind be auto,"
        " or raise sharding.memory_bytes",
    )


def _options(table: Table, kind: str, job: Job, machine: Machine) -> list[_Option]:
    """All ways to spread a table, those of the kind asked for."""
    return [
        _Option(Placed(name, ranks), cost_of(KINDS[name], ranks, table, job, machine))
        for name in (KINDS if kind == AUTO else (kind,))
        for ranks in KINDS[name].choices(job.num_ranks)
    ]


def _cheapest(options: Sequence[_Option], seconds: float) -> list[_Option]:
    """Those that take no more of all ranks together: what would be best if they were many."""
    return [option for option in options if total(option.cost.seconds) <= seconds * (1 + 1e-9)]


def _descending(tables: Sequence[Table], sizes: Sequence[float]) -> list[int]:
    """Tables by size; equal ones in an order that does not depend on their numbers, as far as they differ."""

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
    """The option of each table; without those from the first on that fits nowhere.

    `least` seconds that each table takes of all ranks together; None: what takes least memory is chosen.
    """
    chosen: dict[int, _Option] = {}
    cost, left = nothing(num_ranks), total(least or ())
    for table in order:
        left -= least[table] if least else 0.0
        found = _best(cost, options[table], room, left if least else None)
        if found is None:
            break
        chosen[table] = found
        cost += found.cost
    return chosen


def _placed_anew(
    options: Sequence[Sequence[_Option]], chosen: dict[int, _Option], order: Sequence[int], room: float
) -> dict[int, _Option]:
    """Each table where it is best when all others are placed."""
    cost = _sum([option.cost for option in chosen.values()], len(options[0][0].cost.lookups))
    for _ in range(_ROUNDS):
        before, chosen = chosen, dict(chosen)
        for table in order:
            others = cost - chosen[table].cost
            chosen[table] = _best(others, [chosen[table], *options[table]], room, left=0.0) or chosen[table]
            cost = others + chosen[table].cost
        if chosen == before:
            break
    return chosen


def _best(cost: Cost, options: Sequence[_Option], room: float, left: float | None) -> _Option | None:
    """What is best beside `cost` where `left` seconds of all ranks together are yet to come; None: nothing fits."""
    judged = []
    for option in options:
        after = cost + option.cost
        memory = round(after.memory.max())
        if memory <= room:
            seconds = sorted((round(each * 1e9) for each in after.seconds.tolist()), reverse=True)
            bound = memory if left is None else round((total(after.seconds) + left) / len(seconds) * 1e9)
            judged.append((bound if left is None else max(bound, seconds[0]), seconds, round(after.moved), option))
    return min(judged, key=lambda one: one[:3])[-1] if judged else None


def _sum(costs: Sequence[Cost], num_ranks: int) -> Cost:
    return sum(costs, start=nothing(num_ranks))
