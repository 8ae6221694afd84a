"""The same trainer on a GPU: samples/s, bytes of rows against a copy's, and operations of the MLPs against a product's.

    python -m bench.gpu [--steps N]

One rank. Timed by the device's own events; where there is no GPU it says so and ends. Prints numbers and asserts none.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import torch
import torch.distributed as dist

from bench.dlrm import Kept, Shape
from bench.floor import work_of
from bench.rows import PERCENT, Row, lines
from trainer.loader import Extent, Loader
from trainer.planning import plan
from trainer.train import Trainer
from trainer.world import World, join

Clock = Callable[[Callable[[], object], int], float]  # seconds of a call, the mean of so many on end

SHAPE = Shape(pooling=20, rows=1_000_000, global_batch=65_536, bottom=(1024, 512), top=(1024, 1024, 512))
_WARM_UP = 10


@dataclass(frozen=True)
class Ceiling:
    """How much is copied and multiplied to see what the device can do."""

    copied_bytes: int = 2**30
    width: int = 8192  # of square matrices


def by_events(call: Callable[[], object], times: int) -> float:
    """Seconds between two events on the device's stream, a call; nothing waits in between."""
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    begin.record()
    for _ in range(times):
        call()
    end.record()
    end.synchronize()
    milliseconds: float = begin.elapsed_time(end)
    return milliseconds / 1e3 / times


def measure(world: World, shape: Shape, ceiling: Ceiling, steps: int, clock: Clock) -> Iterator[Row]:
    """The whole step, then its two heavy parts alone, each on a batch of its own size. The group must be joined."""
    config, source = shape.config(), Kept(shape)
    trainer = Trainer(config, world, plan(config, world))
    work = work_of(shape, world.size, source.different())
    extent = Extent.of_steps(None, shape.global_batch)
    with Loader(source, extent, world.rank, world.size, config.loader.depth) as batches:
        trainer.load_next(batches)
        seconds = _timed(lambda: trainer.step(batches), steps, clock)
        yield Row("samples", shape.global_batch / seconds, "1/s")
        yield Row("step", seconds * 1e3, "ms")
        trainer.load_next(batches)
        yield from _of_rows(trainer, work.lookup + work.update, ceiling, steps, clock)
        yield from _of_products(trainer, work.operations, ceiling, steps, clock)


def _of_rows(trainer: Trainer, traffic: int, ceiling: Ceiling, steps: int, clock: Clock) -> Iterator[Row]:
    """Lookup and exact update, as bytes that they must read and write, against a copy's."""
    assert trainer.next_batch is not None
    here = trainer.exchange.send_ids(trainer.next_batch).wait()
    gradient = torch.zeros_like(trainer.tables.lookup(here))

    def look_up_and_update() -> None:
        trainer.tables.lookup(here)
        trainer.tables.update(here, gradient, 0.0)

    copied = torch.ones(ceiling.copied_bytes, dtype=torch.uint8, device=gradient.device)
    into = torch.empty_like(copied)
    rate = traffic / _timed(look_up_and_update, steps, clock)
    most = 2 * ceiling.copied_bytes / _timed(lambda: into.copy_(copied), steps, clock)
    yield Row("rows: read and written", rate / 1e9, "GB/s")
    yield Row("a copy: read and written", most / 1e9, "GB/s")
    yield Row("rows, of a copy", rate / most * PERCENT, "%")


def _of_products(trainer: Trainer, operations: int, ceiling: Ceiling, steps: int, clock: Clock) -> Iterator[Row]:
    """Forward and backward of the dense layers, as operations of their matrix products, against one large product's."""
    assert trainer.next_batch is not None
    batch, model, config = trainer.next_batch.batch, trainer.model, trainer.config
    num_tables = len(config.embedding.rows)
    pooled = torch.ones(len(batch.dense), num_tables, config.embedding.dim, device=batch.dense.device)

    def forward_and_backward() -> None:
        trainer.flat.begin(trainer.flat.sums.clone())
        with trainer.world.autocast(config.train.autocast):
            logits = model.top(model.bottom(batch.dense), pooled)
        logits.sum().backward()
        trainer.flat.replicated_ready()
        trainer.flat.wait()

    one = torch.ones(ceiling.width, ceiling.width, device=batch.dense.device)

    def multiply() -> None:
        with trainer.world.autocast(config.train.autocast):
            torch.mm(one, one)

    rate = operations / _timed(forward_and_backward, steps, clock)
    most = 2 * ceiling.width**3 / _timed(multiply, steps, clock)
    yield Row("MLPs", rate / 1e12, "TFLOP/s")
    yield Row(f"a product of {ceiling.width:,}²", most / 1e12, "TFLOP/s")
    yield Row("MLPs, of a product", rate / most * PERCENT, "%")


def _timed(call: Callable[[], object], times: int, clock: Clock) -> float:
    for _ in range(_WARM_UP):
        call()
    return clock(call, times)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=100, help="of each measurement (100)")
    told = parser.parse_args()
    if not torch.cuda.is_available():
        print("no GPU here: python -m bench.gpu measures nothing without one")
        return
    world = replace(World(rank=0, size=1), local_rank=torch.cuda.current_device())
    join(world)
    print(f"{torch.cuda.get_device_name()}, {SHAPE}")
    print(*lines(measure(world, SHAPE, Ceiling(), told.steps, by_events)), sep="\n", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
