"""Measures the planner's time and memory, and how even its plans are. `python -m bench.planner` takes a minute.

Each case runs in a process of its own, without torch. Tables are drawn at random: 10^3 to 10^7 rows, 16 to 128 columns,
1 to 50 ids per sample. `trainer` is a machine with the default keys of the trainer, `zionex` is the published one.

A step cannot be shorter than the mean of all ranks, or than a rank with the longest unsplit shard. The larger of the
two is the bound. `÷ bound` is the slowest rank of a plan, divided by the bound. The second table has this ratio for
the three partitioners, with the kinds of shards that the planner tries first: as placed, after swaps, and after repair.
"""

from __future__ import annotations

import argparse
import random
import resource
import subprocess
import sys
import time
from collections.abc import Sequence

from bench.rows import table_line
from trainer.registry import KINDS
from trainer.scale.published import ZIONEX
from trainer.scale.sharding.assignment import Assignment, Limits
from trainer.scale.sharding.cost import Loads
from trainer.scale.sharding.options import Option, bounds, options_of
from trainer.scale.sharding.planner import AUTO, ShardingConfig, choose
from trainer.scale.sharding.repair import Repair
from trainer.scale.sharding.starts import selections, starts
from trainer.scale.sharding.step import Step
from trainer.scale.sharding.swaps import swap_tables
from trainer.scale.sharding.workload import Machine, Table, Workload

_CASES = ((150, 128), (1000, 128))  # tables, ranks
_RANKS_PER_HOST = 8
_MACHINES = ("trainer", "zionex")
_SAMPLES = 512  # of a rank
_NO_LIMIT = 1 << 50  # bytes
_PLAN_HEADS = ("tables", "ranks", "machine", "wall s", "CPU s", "peak MB", "slowest ms", "mean ms", "÷ bound")
_PARTITIONER_HEADS = ("tables", "machine", f"{'partitioner':>20}", "placed", "swapped", "repaired")  # three: ÷ bound


def main() -> None:
    """Print both tables, or the lines of one case in a process of its own."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--case", nargs=4, metavar=("PART", "TABLES", "RANKS", "MACHINE"), help=argparse.SUPPRESS)
    arguments = parser.parse_args().case
    if arguments:
        part, num_tables, num_ranks, machine = arguments
        print_case = _print_plan if part == "plan" else _print_partitioners
        print_case(int(num_tables), int(num_ranks), machine)
        return
    for part, heads in (("plan", _PLAN_HEADS), ("partitioners", _PARTITIONER_HEADS)):
        print(table_line(heads, heads), flush=True)
        for num_tables, num_ranks in _CASES:
            for machine in _MACHINES:
                case = part, str(num_tables), str(num_ranks), machine
                subprocess.run([sys.executable, "-m", "bench.planner", "--case", *case], check=True)
        print()


def _print_plan(num_tables: int, num_ranks: int, name: str) -> None:
    """Print the cost of the planner, and how even its plan is."""
    workload = _workload(num_tables, num_ranks)
    machine = _machine(name)
    wall_begin = time.perf_counter()
    cpu_begin = time.process_time()
    plan = choose(workload, machine, (AUTO,) * num_tables, memory_bytes=_NO_LIMIT, base_bytes=0)
    wall = time.perf_counter() - wall_begin
    cpu = time.process_time() - cpu_begin
    step = Step(workload, machine)
    chosen = [
        next(
            option
            for option in options_of({placement.kind: KINDS[placement.kind]}, table, workload, machine, step)
            if placement.ranks in option.groups
        )
        for table, placement in zip(workload.tables, plan.tables, strict=True)
    ]
    seconds = [load.seconds for load in plan.predicted]
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    slowest = max(seconds)
    mean = sum(seconds) / num_ranks
    bound = max(bounds(chosen, step))
    times = f"{wall:.1f}", f"{cpu:.1f}", f"{peak:.0f}", f"{slowest * 1e3:.1f}", f"{mean * 1e3:.1f}"
    cells = str(num_tables), str(num_ranks), name, *times, f"{slowest / bound:.3f}"
    print(table_line(cells, _PLAN_HEADS))


def _print_partitioners(num_tables: int, num_ranks: int, name: str) -> None:
    """Print a line for each partitioner: the slowest rank ÷ bound as placed, after swaps, and after repair."""
    workload = _workload(num_tables, num_ranks)
    machine = _machine(name)
    limits = Limits(_NO_LIMIT)
    step = Step(workload, machine)
    options = [options_of(KINDS, table, workload, machine, step) for table in workload.tables]
    selected = next(iter(selections(options, step, limits)))
    bound = max(bounds(selected, step))
    for partitioner, start in starts(selected, limits).items():
        stages = (step.seconds(loads).max() / bound for loads in _stages(options, start, step, limits))
        cells = (str(num_tables), name, partitioner, *(f"{stage:.3f}" for stage in stages))
        print(table_line(cells, _PARTITIONER_HEADS))


def _stages(
    options: Sequence[Sequence[Option]], start: Assignment, step: Step, limits: Limits
) -> tuple[Loads, Loads, Loads]:
    """Return the loads of an assignment at first, after swaps, and after repair."""
    after = swap_tables(start, step, limits)
    (repaired,) = Repair(options, step, limits).repair([after])
    return start.loads, after.loads, repaired.loads


def _workload(num_tables: int, num_ranks: int) -> Workload:
    draw = random.Random(0)
    tables = tuple(
        Table(int(10 ** draw.uniform(3, 7)), draw.choice((16, 32, 64, 128)), draw.choice((1, 1, 5, 20, 50)))
        for _ in range(num_tables)
    )
    return Workload(tables, (_SAMPLES,) * num_ranks)


def _machine(name: str) -> Machine:
    return (ZIONEX if name == "zionex" else ShardingConfig()).machine(_RANKS_PER_HOST)


if __name__ == "__main__":
    main()
