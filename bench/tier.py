"""The step with embedding rows on a disk, compared with all rows in memory, in a memory cgroup (v1, as root).

    python -m bench.tier [--pairs N] [--steps N] [--ranks N] [--folder DIR]

Tables are four times as large as the cache. Runs with rows on a disk and in memory alternate, and each pair gives a
ratio of medians. The cgroup around the ranks on the disk holds what the plan says and 256 MiB; it counts the page cache
too. Steps without a read from the disk are counted. The benchmark prints numbers but does not check them.
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
from typing import Any

CGROUP = Path("/sys/fs/cgroup/memory")
_MIB = 1 << 20  # bytes
ROWS, DIM = (1_000_000,) * 4, 32
WARM_UP_LOOKUPS = 200  # of 20 ids a bag, which fill the cache more than once
WARM_UP = 50  # steps after these lookups
TABLES = sum(ROWS) * (DIM + 1) * 4  # bytes
_SPARE = 256 * _MIB  # over the plan


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=5, help="runs of each kind")
    parser.add_argument("--steps", type=int, default=200, help="measured steps of a run")
    parser.add_argument("--ranks", type=int, default=1)
    parser.add_argument("--pooling", type=int, nargs="*", default=(1, 20), help="ids of a bag")
    parser.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir()), help="of the rows on the disk")
    parser.add_argument("--job", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.job:
        _job(**json.loads(arguments.job))
        return
    if not CGROUP.is_dir() or os.geteuid():
        sys.exit(f"{CGROUP} cannot be used: it needs root and cgroups of version 1. Run it on such a machine")
    for pooling in arguments.pooling:
        for memory, kind in ((TABLES // 4 // arguments.ranks, "a fourth in memory"), (TABLES * 2, "all fits")):
            ratios, texts = [], []
            for _ in range(arguments.pairs):
                plain = _run(arguments, pooling, 0, limit=None)
                planned_bytes = int(plain["plan"]) * arguments.ranks - TABLES + TABLES // 4  # of all ranks
                limit = None if kind == "all fits" else planned_bytes + _SPARE
                tiered = _run(arguments, pooling, memory, limit)
                ratios.append(tiered["step"] / plain["step"])
                texts.append(f"{plain['step'] * 1e3:.1f} → {tiered['step'] * 1e3:.1f} ms")
            print(
                f"pooling {pooling}, {kind}: × {statistics.median(ratios):.3f} ({min(ratios):.3f} to {max(ratios):.3f})"
            )
            print("   ", ", ".join(texts))
            print("   ", {key: value for key, value in tiered.items() if key not in ("step", "plan")}, flush=True)


def _run(arguments: argparse.Namespace, pooling: int, memory: int, limit: int | None) -> dict[str, Any]:
    """Train in a process for each rank; return the figures of rank 0. `limit` is that of the cgroup in bytes."""
    job = {"pooling": pooling, "memory": memory, "steps": arguments.steps, "folder": str(arguments.folder / "rows")}
    launcher = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", str(arguments.ranks)]
    command = [*launcher, "-m", "bench.tier", "--job", json.dumps(job)]
    group = CGROUP / f"zmon-bench-{os.getpid()}"
    if limit is not None:
        group.mkdir(exist_ok=True)
        (group / "memory.limit_in_bytes").write_text(str(limit))
        command = ["sh", "-c", f'echo $$ > {group}/cgroup.procs; exec "$@"', "sh", *command]
    environment = os.environ | {"OMP_NUM_THREADS": "1", "ZMON_DISABLED": "1"}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    if done.returncode:
        sys.exit(done.stderr[-3000:])
    result: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
    if limit is not None:
        result["limit MiB"] = limit // _MIB
        result["most MiB"] = int((group / "memory.max_usage_in_bytes").read_text()) // _MIB
        group.rmdir()
    return result


def _job(pooling: int, memory: int, steps: int, folder: str) -> None:
    """Train as one rank, and print the figures of the steps after the warm-up."""
    from trainer import loop
    from trainer.batch import StepBatch, shares
    from trainer.keys import apply_changes
    from trainer.loader import Loader
    from trainer.scale.presets import demo
    from trainer.scale.run import Run, extent, open_source
    from trainer.scale.tier.kernel import TieredKernel
    from trainer.world import join, world_from

    tier = {"folder": folder if memory else ""}
    changes = {
        "embedding": {"rows": list(ROWS), "dim": DIM, "kernel": "torch", "memory": memory, "tier": tier},
        "synthetic": {"shortest_bag": pooling, "longest_bag": pooling},
        "model": {"bottom": [512, 256], "top": [1024, 512, 256]},
        "train": {"steps": WARM_UP + steps},
        "sharding": {"kind": "row_wise"},
    }
    world = world_from(os.environ)
    join(world)
    config = apply_changes(demo(), [changes])
    source = open_source(config, world)
    run = Run(config, world, source)
    on_disk = [kernel for kernel in run.trainer.tables.on_disk.values() if isinstance(kernel, TieredKernel)]
    if on_disk:
        large_bags = apply_changes(config, [{"synthetic": {"shortest_bag": 20, "longest_bag": 20}}])
        size = config.train.global_batch
        warm_up_source = open_source(large_bags, world)
        for number in range(WARM_UP_LOOKUPS):
            share = shares(size, world.size)[world.rank]
            batch = warm_up_source.batch(10**6 + number, share.start, share.size)
            run.trainer.tables.lookup(run.trainer.exchange.send_ids(StepBatch(0, size, batch)).wait())
    times = []
    reads = []
    begin = 0.0
    read = 0
    with Loader(source, extent(config, source), world.rank, world.size, depth=2) as batches:
        results = loop.steps(run.trainer, batches)
        for number, result in enumerate(results):
            result.sums.numbers()
            if number >= WARM_UP:
                times.append(time.perf_counter() - begin)
                reads.append(_read_bytes() - read)
            if number == WARM_UP:
                first_read = _read_bytes()
                first_missing = sum(kernel.rows_from_disk for kernel in on_disk)
            begin = time.perf_counter()
            read = _read_bytes()
    missing = sum(kernel.rows_from_disk for kernel in on_disk) - first_missing
    needed = missing * (DIM + 1) * 4
    figures = {"step": statistics.median(times), "plan": run.plan.predicted[world.rank].memory_bytes}
    if memory:
        figures |= {
            "rows missing a step": round(missing / steps),
            "read / needed": round((_read_bytes() - first_read) / max(1, needed), 1),
            "steps without a read": sum(read == 0 for read in reads),
            "mean step ms": round(statistics.mean(times) * 1e3, 1),
        }
    if world.rank == 0:
        print(json.dumps(figures))


def _read_bytes() -> int:
    """Return the bytes that this process has read from disks."""
    lines = Path("/proc/self/io").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("read_bytes"))


if __name__ == "__main__":
    main()
