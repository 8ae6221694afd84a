"""Encrypted data compared with plain data: the speed of trainer.prepare, and the step of one rank.

    python -m bench.encryption [--rows N] [--rounds N]

The two kinds of data take turns. The benchmark prints numbers but does not check them.
"""

from __future__ import annotations

import os
import secrets
import statistics
import tempfile
import time
from pathlib import Path

import numpy as np

from bench.rows import parser_of
from trainer import loop
from trainer.keys import apply_changes
from trainer.loader import Loader
from trainer.scale.prepare import prepare
from trainer.scale.presets import demo
from trainer.scale.run import Run, extent, open_source
from trainer.world import join, world_from

_BLOCK_STEPS = 20
_WARM_UP_STEPS = 5  # the first steps of a block, which do not count
_PREPARATIONS = 4  # of each kind
_CHUNK_ROWS = 1000  # generated together
_KEYS = {"plain": "", "encrypted": "key"}  # the file of the key, by kind of data


def main() -> None:
    """Measure and print."""
    parser = parser_of(__doc__)
    parser.add_argument("--rows", type=int, default=300_000, help="rows to prepare (300,000)")
    parser.add_argument("--rounds", type=int, default=15, help=f"blocks of {_BLOCK_STEPS} steps of each kind (15)")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)  # all names of files below are relative to it
        Path("key").write_text(secrets.token_hex(32))
        Path("key").chmod(0o600)
        _write_rows(Path("rows.tsv"), arguments.rows)
        rates: dict[str, list[float]] = {kind: [] for kind in _KEYS}
        for turn in range(_PREPARATIONS):
            for kind, key in _KEYS.items():
                begin = time.perf_counter()
                manifest = prepare(["rows.tsv"], Path(f"{kind}-{turn}"), warn=print, key_file=key)
                rates[kind].append(sum(manifest.train) / (time.perf_counter() - begin))
        _print("prepare, rows/s", rates)
        _print("step, ms", _steps(arguments.rounds))


def _write_rows(path: Path, num_rows: int) -> None:
    """Write random rows in the format of Criteo: a label, 13 integers and 26 categories in hexadecimal."""
    generator = np.random.default_rng(1)
    with path.open("w") as file:
        for _ in range(0, num_rows, _CHUNK_ROWS):
            labels = generator.integers(0, 2, _CHUNK_ROWS).tolist()
            integers = generator.integers(0, 10_000, (_CHUNK_ROWS, 13)).tolist()
            categories = generator.integers(0, 1 << 32, (_CHUNK_ROWS, 26)).tolist()
            for label, numbers, words in zip(labels, integers, categories, strict=True):
                print(label, *numbers, *(f"{word:08x}" for word in words), sep="\t", file=file)


def _steps(rounds: int) -> dict[str, list[float]]:
    """Return the milliseconds of each step by kind of data; the first round warms up."""
    world = world_from(os.environ)
    join(world)
    batches = {}
    runs = {}
    for kind, key in _KEYS.items():
        criteo = {"file": f"{kind}-0", "key_file": key}
        config = apply_changes(demo(), [{"criteo": criteo, "train": {"global_batch": 1024}}])
        source = open_source(config, world)
        runs[kind] = Run(config, world, source)
        batches[kind] = Loader(source, extent(config, source), world.rank, world.size, config.loader.depth)
    steps = {kind: loop.steps(runs[kind].trainer, iter(batches[kind])) for kind in _KEYS}
    seconds: dict[str, list[float]] = {kind: [] for kind in _KEYS}
    for number in range(rounds):
        for kind in _KEYS if number % 2 else reversed(_KEYS):
            for step in range(_BLOCK_STEPS):
                begin = time.perf_counter()
                next(steps[kind])
                if number and step >= _WARM_UP_STEPS:
                    seconds[kind].append((time.perf_counter() - begin) * 1e3)
    return seconds


def _print(what: str, values: dict[str, list[float]]) -> None:
    """Print the medians, their ratio and the quartiles."""
    plain, encrypted = (statistics.median(values[kind]) for kind in _KEYS)
    print(f"{what}: plain {plain:,.2f}, encrypted {encrypted:,.2f}: × {encrypted / plain:.3f}")
    for kind in _KEYS:
        low, _, high = statistics.quantiles(values[kind], n=4)
        print(f"    {kind}: half of the values from {low:,.2f} to {high:,.2f}", flush=True)


if __name__ == "__main__":
    main()
