"""The route of ids to shards, compared with a loop over all shards.

    python -m bench.routing [--rounds N]

Both give the same rows and lengths, which is checked. The benchmark prints milliseconds and ratios.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor

import trainer.scale  # noqa: F401  # registers the kinds
from bench.rows import parser_of
from trainer.batch import Batch
from trainer.registry import KINDS
from trainer.routing import Router
from trainer.sharding import Shard, group_key, in_order

ROWS, DIM = 10_000, 64


@dataclass(frozen=True)
class Case:
    """Tables of one kind, and the samples of a rank."""

    kind: str
    tables: int
    samples: int
    ranks: int
    pooling: int


CASES = (
    Case("table_wise", 26, 128, 2, 2),
    Case("table_wise", 26, 1024, 4, 2),
    Case("row_wise", 26, 1024, 4, 2),
    Case("row_wise", 26, 256, 4, 1),
    Case("table_wise", 150, 256, 128, 2),
    Case("row_wise", 150, 256, 128, 2),
    Case("column_wise", 26, 64, 8, 1),
    Case("column_wise", 26, 64, 64, 1),
    Case("column_wise", 26, 512, 64, 1),  # 1,664 shards, and more ids a table than Router copies at a time
)


def shards_of(case: Case) -> tuple[Shard, ...]:
    """Return the shards of all ranks."""
    kind = KINDS[case.kind]
    shards = list[Shard]()
    choices = kind.choices(case.ranks, case.ranks)
    for table in range(case.tables):
        ranks = choices[-1] if case.kind == "column_wise" else choices[table % len(choices)]  # all of them
        shards += kind.shards(table, ROWS, DIM, ranks)
    return in_order(shards)


def batch_of(case: Case) -> Batch:
    """Return random bags of up to twice the pooling factor."""
    generator = torch.Generator().manual_seed(0)
    lengths = torch.randint(0, 2 * case.pooling + 1, (case.tables, case.samples), generator=generator)
    ids = torch.randint(0, ROWS, (int(lengths.sum()),), generator=generator)
    return Batch(torch.zeros(case.samples, 1), ids, lengths, torch.zeros(case.samples))


def by_loop(shards: Sequence[Shard], batch: Batch) -> tuple[Tensor, Tensor]:
    """Return the rows and the lengths of all bags; each shard searches all ids of its table."""
    ids = batch.ids.split(batch.lengths.sum(dim=1).tolist())
    samples = [torch.arange(len(bags)).repeat_interleave(bags) for bags in batch.lengths]
    begins: dict[object, int] = {}
    rows, lengths = [], []
    for shard in shards:
        in_shard = (ids[shard.table] >= shard.first_row) & (ids[shard.table] < shard.first_row + shard.num_rows)
        group = shard.rank, group_key(shard)
        begin = begins.setdefault(group, 0)
        rows.append(ids[shard.table][in_shard] + (begin - shard.first_row))
        lengths.append(torch.bincount(samples[shard.table][in_shard], minlength=len(batch.labels)))
        begins[group] = begin + shard.num_rows
    return torch.cat(rows).to(torch.int32), torch.cat(lengths).to(torch.int32)


def fastest(call: Callable[[], object], rounds: int) -> float:
    """Return the seconds of the fastest of several calls."""
    seconds = []
    for _ in range(rounds):
        begin = time.perf_counter()
        call()
        seconds.append(time.perf_counter() - begin)
    return min(seconds)


def main() -> None:
    """Measure and print a line for each case."""
    parser = parser_of(__doc__)
    parser.add_argument("--rounds", type=int, default=7, help="calls, of which the fastest counts (7)")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    print(f"{'':<44}{'ids':>9}{'loop, ms':>11}{'router, ms':>12}{'speedup':>10}")
    for case in CASES:
        shards = shards_of(case)
        batch = batch_of(case)
        router = Router(shards)
        rows, lengths = by_loop(shards, batch)
        routed = router.route(batch)
        assert torch.equal(routed.rows, rows)
        assert torch.equal(routed.lengths, lengths)
        loop = fastest(partial(by_loop, shards, batch), arguments.rounds)
        search = fastest(partial(router.route, batch), arguments.rounds)
        name = f"{case.tables} tables {case.kind}, {case.samples} samples, {case.ranks} ranks"
        cells = f"{len(batch.ids):>9,}{loop * 1e3:>11.2f}{search * 1e3:>12.2f}{loop / search:>8.1f} ×"
        print(f"{name:<44}{cells}", flush=True)


if __name__ == "__main__":
    main()
