"""The step with embedding rows on a disk, compared with all rows in memory, in a memory cgroup (v1, as root).

    python -m bench.tier [--pairs N] [--steps N] [--ranks N] [--folder DIR]

Runs with rows on a disk and runs with all rows in memory alternate; each pair gives a ratio of the median steps. With
rows on a disk, a cache in memory has a fourth of the tables (`a fourth in memory`) or all of them (`all fits`). With a
fourth, the ranks run in a memory cgroup, so that the page cache counts too. Its limit is the memory that the plan
predicts, plus 256 MiB. The benchmark prints numbers but does not check them.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench.rows import parser_of

if TYPE_CHECKING:  # only a rank loads torch
    from trainer.scale.run import Run

_CGROUP = Path("/sys/fs/cgroup/memory")
_MIB = 1 << 20  # bytes
_ROWS, _DIM = (1_000_000,) * 4, 32
_ROW_BYTES = 4 * (_DIM + 1)  # a row and its state
_TABLE_BYTES = sum(_ROWS) * _ROW_BYTES
_WARM_UP_LOOKUPS, _WARM_UP_POOLING = 200, 20  # global batches and ids of a bag, which fill the cache more than once
_WARM_UP_BATCH = 10**6  # the number of the first of these batches, which no step uses
_WARM_UP_STEPS = 50  # after these lookups
_SPARE_BYTES = 256 * _MIB  # over the plan
_ERROR_CHARACTERS = 3000  # of the output of a run that failed


def main() -> None:
    """Measure and print."""
    parser = parser_of(__doc__)
    parser.add_argument("--pairs", type=int, default=5, help="runs of each kind")
    parser.add_argument("--steps", type=int, default=200, help="measured steps of a run")
    parser.add_argument("--ranks", type=int, default=1, help="ranks of a run")
    parser.add_argument("--pooling", type=int, nargs="*", default=(1, 20), help="ids of a bag")
    parser.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir()), help="of the rows on the disk")
    parser.add_argument("--job", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.job:
        _job(**json.loads(arguments.job))
        return
    if not _CGROUP.is_dir() or os.geteuid():
        sys.exit(f"{_CGROUP} cannot be used: it needs root and cgroups of version 1. Run it on such a machine")
    for pooling in arguments.pooling:
        for all_fits in (False, True):
            _compare(arguments, pooling, all_fits)


def _compare(arguments: argparse.Namespace, pooling: int, all_fits: bool) -> None:
    """Run the pairs of one kind, and print their ratios."""
    cache_bytes = 2 * _TABLE_BYTES if all_fits else _TABLE_BYTES // 4 // arguments.ranks  # of each rank
    ratios = []
    texts = []
    for _ in range(arguments.pairs):
        plain = _run(arguments, pooling, cache_bytes=0, limit=None)
        planned_bytes = int(plain["plan"]) * arguments.ranks - _TABLE_BYTES + _TABLE_BYTES // 4  # of all ranks
        tiered = _run(arguments, pooling, cache_bytes, limit=None if all_fits else planned_bytes + _SPARE_BYTES)
        ratios.append(tiered["step"] / plain["step"])
        texts.append(f"{plain['step'] * 1e3:.1f} → {tiered['step'] * 1e3:.1f} ms")
    kind = "all fits" if all_fits else "a fourth in memory"
    print(f"pooling {pooling}, {kind}: × {statistics.median(ratios):.3f} ({min(ratios):.3f} to {max(ratios):.3f})")
    print("   ", ", ".join(texts))
    print("   ", {key: value for key, value in tiered.items() if key not in ("step", "plan")}, flush=True)


def _run(arguments: argparse.Namespace, pooling: int, cache_bytes: int, limit: int | None) -> dict[str, Any]:
    """Train in a process for each rank; return the figures of rank 0. `limit` is that of the cgroup in bytes."""
    folder = str(arguments.folder / "rows") if cache_bytes else ""
    job = {"pooling": pooling, "cache_bytes": cache_bytes, "steps": arguments.steps, "folder": folder}
    launcher = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", str(arguments.ranks)]
    command = [*launcher, "-m", "bench.tier", "--job", json.dumps(job)]
    group = _CGROUP / f"zmon-bench-{os.getpid()}"
    if limit is not None:
        group.mkdir(exist_ok=True)
        (group / "memory.limit_in_bytes").write_text(str(limit))
        command = ["sh", "-c", f'echo $$ > {group}/cgroup.procs; exec "$@"', "sh", *command]
    environment = os.environ | {"OMP_NUM_THREADS": "1", "ZMON_DISABLED": "1"}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    if done.returncode:
        sys.exit(done.stderr[-_ERROR_CHARACTERS:])
    result: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
    if limit is not None:
        result["limit MiB"] = limit // _MIB
        result["most MiB"] = int((group / "memory.max_usage_in_bytes").read_text()) // _MIB
        group.rmdir()
    return result


def _job(pooling: int, cache_bytes: int, steps: int, folder: str) -> None:
    """Train as one rank, and print the figures of the steps after the warm-up. `folder` "": all rows are in memory."""
    from trainer import loop
    from trainer.keys import apply_changes
    from trainer.loader import Loader
    from trainer.scale.presets import demo
    from trainer.scale.run import Run, extent, open_source
    from trainer.scale.tier.kernel import TieredKernel
    from trainer.world import join, world_from

    tier = {"folder": folder}
    changes = {
        "embedding": {"rows": list(_ROWS), "dim": _DIM, "kernel": "torch", "memory": cache_bytes, "tier": tier},
        "synthetic": {"shortest_bag": pooling, "longest_bag": pooling},
        "model": {"bottom": [512, 256], "top": [1024, 512, 256]},
        "train": {"steps": _WARM_UP_STEPS + steps},
        "sharding": {"kind": "row_wise"},
    }
    world = world_from(os.environ)
    join(world)
    config = apply_changes(demo(), [changes])
    source = open_source(config, world)
    run = Run(config, world, source)
    on_disk = [kernel for kernel in run.trainer.tables.on_disk.values() if isinstance(kernel, TieredKernel)]
    if on_disk:
        _fill_caches(run)
    times = []
    read_bytes = []
    with Loader(source, extent(config, source), world.rank, world.size, depth=2) as batches:
        results = loop.steps(run.trainer, batches)
        for _ in range(_WARM_UP_STEPS):
            next(results).sums.numbers()
        missing_before = sum(kernel.rows_from_disk for kernel in on_disk)
        for _ in range(steps):
            read_before = _read_bytes()
            begin = time.perf_counter()
            next(results).sums.numbers()  # waits until the step is done
            times.append(time.perf_counter() - begin)
            read_bytes.append(_read_bytes() - read_before)
        num_missing = sum(kernel.rows_from_disk for kernel in on_disk) - missing_before
    figures = {"step": statistics.median(times), "plan": run.plan.predicted[world.rank].memory_bytes}
    if on_disk:
        figures |= {
            "rows missing a step": round(num_missing / steps),
            "read / needed": round(sum(read_bytes) / max(1, num_missing * _ROW_BYTES), 1),
            "steps without a read": read_bytes.count(0),
            "mean step ms": round(statistics.mean(times) * 1e3, 1),
        }
    if world.rank == 0:
        print(json.dumps(figures))


def _fill_caches(run: Run) -> None:
    """Look up rows until the caches are full."""
    from trainer.batch import StepBatch, shares
    from trainer.keys import apply_changes
    from trainer.scale.run import open_source

    trainer = run.trainer
    world = trainer.world
    bags = {"shortest_bag": _WARM_UP_POOLING, "longest_bag": _WARM_UP_POOLING}
    source = open_source(apply_changes(run.config, [{"synthetic": bags}]), world)
    global_batch = run.config.train.global_batch
    share = shares(global_batch, world.size)[world.rank]
    for number in range(_WARM_UP_LOOKUPS):
        batch = source.batch(_WARM_UP_BATCH + number, share.start, share.size)
        trainer.tables.lookup(trainer.exchange.send_ids(StepBatch(0, global_batch, batch)).wait())


def _read_bytes() -> int:
    """Return the bytes that this process has read from disks."""
    lines = Path("/proc/self/io").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("read_bytes"))


if __name__ == "__main__":
    main()
