"""Encrypted data compared with plain data: the speed of trainer.prepare, and the step of one rank.

    python -m bench.encryption [--rows N] [--rounds N]

Both kinds take turns, in one process for the steps. The benchmark prints numbers but does not check them.
"""

from __future__ import annotations

import argparse
import os
import secrets
import statistics
import tempfile
import time
from pathlib import Path

import numpy as np

from trainer import loop
from trainer.keys import apply_changes
from trainer.loader import Loader
from trainer.scale.prepare import prepare
from trainer.scale.presets import demo
from trainer.scale.run import Run, extent, open_source
from trainer.world import join, world_from

_BLOCK = 20  # steps in turn
_WARM_UP = 5  # the first steps of a block, which do not count
_ROWS_AT_A_TIME = 1000
KEYS = {"plain": "", "encrypted": "key"}  # the file of the key


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=300_000)
    parser.add_argument("--rounds", type=int, default=15)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        Path("key").write_text(secrets.token_hex(32))
        Path("key").chmod(0o600)
        _write_rows(Path("rows.tsv"), arguments.rows)
        rates: dict[str, list[float]] = {kind: [] for kind in KEYS}
        for turn in range(4):
            for kind, key in KEYS.items():
                begin = time.perf_counter()
                manifest = prepare(["rows.tsv"], Path(f"{kind}-{turn}"), warn=print, key_file=key)
                rates[kind].append(sum(manifest.train) / (time.perf_counter() - begin))
        _print("prepare, rows/s", rates)
        _print("step, ms", _steps(arguments.rounds))


def _write_rows(path: Path, num_rows: int) -> None:
    """Write made-up rows."""
    generator = np.random.default_rng(1)
    with path.open("w") as file:
        for _ in range(0, num_rows, _ROWS_AT_A_TIME):
            integers = generator.integers(0, 10_000, (_ROWS_AT_A_TIME, 14))
            categories = generator.integers(0, 1 << 32, (_ROWS_AT_A_TIME, 26))
            for label, *row in (
                [*whole, *(f"{category:08x}" for category in of_row)]
                for whole, of_row in zip(integers.tolist(), categories.tolist(), strict=True)
            ):
                print(label % 2, *row, sep="\t", file=file)


def _steps(rounds: int) -> dict[str, list[float]]:
    world = world_from(os.environ)
    join(world)
    batches = {}
    runs = {}
    for kind, key in KEYS.items():
        criteo = {"file": f"{kind}-0", "key_file": key}
        config = apply_changes(demo(), [{"criteo": criteo, "train": {"global_batch": 1024}}])
        source = open_source(config, world)
        runs[kind] = Run(config, world, source)
        batches[kind] = Loader(source, extent(config, source), world.rank, world.size, config.loader.depth)
    steps = {kind: loop.steps(runs[kind].trainer, iter(batches[kind])) for kind in KEYS}
    seconds: dict[str, list[float]] = {kind: [] for kind in KEYS}
    for number in range(rounds):
        for kind in KEYS if number % 2 else reversed(KEYS):
            for step in range(_BLOCK):
                begin = time.perf_counter()
                next(steps[kind])
                if number and step >= _WARM_UP:
                    seconds[kind].append((time.perf_counter() - begin) * 1e3)
    return seconds


def _print(what: str, values: dict[str, list[float]]) -> None:
    plain, encrypted = (statistics.median(values[kind]) for kind in KEYS)
    spread = {kind: statistics.quantiles(values[kind], n=4) for kind in KEYS}
    print(f"{what}: plain {plain:,.2f}, encrypted {encrypted:,.2f}: × {encrypted / plain:.3f}")
    for kind, (low, _, high) in spread.items():
        print(f"    {kind}: half of the values from {low:,.2f} to {high:,.2f}", flush=True)


if __name__ == "__main__":
    main()
