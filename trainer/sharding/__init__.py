"""The sharding of embedding tables over the ranks: a kind for each table, chosen by the planner or by the user.

    plan.py           the kind and the ranks of each table, and the predicted cost
    planner.py        chooses the fastest plan that fits into memory, with options.py, partition.py, swaps.py, repair.py
    cost.py           the loads of a table for each rank: lookups, bytes, work, memory
    step.py           the seconds of a step, from the loads of all tables
    groups.py         the shards that a rank looks up together
    table_wise.py     a whole table on one rank
    row_wise.py       equal ranges of rows on every rank
    column_wise.py    equal ranges of columns on several ranks
    table_row_wise.py equal ranges of rows on the ranks of one host
    data_parallel.py  a copy on every rank

A kind defines which rank holds which rows and columns, and names one of three ways in which their vectors are merged
(kind.py). Everything else is the same for all kinds. To add a kind, add a file and a line in `KINDS`.
"""

from trainer.sharding.column_wise import ColumnWise
from trainer.sharding.data_parallel import DataParallel
from trainer.sharding.kind import Kind, Shard
from trainer.sharding.plan import Memory, Placement, Plan, RankLoad
from trainer.sharding.row_wise import RowWise
from trainer.sharding.table_row_wise import TableRowWise
from trainer.sharding.table_wise import TableWise

KINDS: dict[str, Kind] = {
    kind.name: kind for kind in (TableWise(), RowWise(), ColumnWise(), TableRowWise(), DataParallel())
}

__all__ = ["KINDS", "Kind", "Memory", "Placement", "Plan", "RankLoad", "Shard"]
