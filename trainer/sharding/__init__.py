"""How embedding tables are spread over the ranks: a kind for each table, chosen by the planner or by you.

    plan.py           which kind each table has and which ranks hold it; what that is predicted to cost
    planner.py        chooses: the cheapest that fits into memory
    cost.py           what a table costs each rank in a step
    table_wise.py     a whole table on one rank
    row_wise.py       equal ranges of its rows on every rank
    data_parallel.py  a copy on every rank

A kind says which rows lie where and which ids go there; all else is the same for all of them. Another kind is a file
here and a line in `KINDS`.
"""

from trainer.sharding.data_parallel import DataParallel
from trainer.sharding.kind import Kind, Shard
from trainer.sharding.plan import Load, Memory, Placed, Plan
from trainer.sharding.row_wise import RowWise
from trainer.sharding.table_wise import TableWise

KINDS: dict[str, Kind] = {kind.name: kind for kind in (TableWise(), RowWise(), DataParallel())}

__all__ = ["KINDS", "Kind", "Load", "Memory", "Placed", "Plan", "Shard"]
