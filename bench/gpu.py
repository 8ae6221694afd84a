"""The trainer on a GPU: samples/s, bandwidth of table rows relative to a copy, FLOP/s of MLPs relative to a product.

    python -m bench.gpu [--steps N]

It runs one rank and measures with CUDA events. On a machine without a GPU it prints a message and ends. It prints
numbers but does not check them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import torch
import torch.distributed as dist

from bench.dlrm import RepeatingSource, Shape
from bench.floor import work_of
from bench.rows import PERCENT, Row, lines, parser_of
from trainer import loop
from trainer.batch import Batch, StepBatch
from trainer.loader import Extent, Loader
from trainer.scale.planning import plan
from trainer.train import Trainer
from trainer.world import World, join

Clock = Callable[[Callable[[], object], int], float]  # (call, number of calls) -> mean seconds of a call

SHAPE = Shape(pooling=20, rows=1_000_000, global_batch=65_536, bottom=(1024, 512), top=(1024, 1024, 512))
_WARM_UP_CALLS = 10


@dataclass(frozen=True)
class Ceiling:
    """The sizes of the copy and the product that measure the limits of the device."""

    copied_bytes: int = 2**30
    width: int = 8192  # rows and columns of the square matrices


def by_events(call: Callable[[], object], times: int) -> float:
    """Return the mean seconds of a call between two events on the device's stream, without synchronization."""
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    begin.record()
    for _ in range(times):
        call()
    end.record()
    end.synchronize()
    milliseconds: float = begin.elapsed_time(end)
    return milliseconds / 1e3 / times


def measure(world: World, shape: Shape, ceiling: Ceiling, steps: int, clock: Clock) -> Iterator[Row]:
    """Measure the whole step, then rows and MLPs on the next batch. The process group must exist.

    All batches are generated before the first step.
    """
    config = shape.config()
    source = RepeatingSource(shape)
    source.generate(world.rank, world.size)
    trainer = Trainer(config, world, plan(config, world).tables)
    work = work_of(shape, world.size, source.distinct_rows())
    extent = Extent.of_steps(None, shape.global_batch)
    with Loader(source, extent, world.rank, world.size, config.loader.depth) as batches:
        results = loop.steps(trainer, batches)
        seconds = _time_call(lambda: next(results), steps, clock)
        yield Row("samples", shape.global_batch / seconds, "1/s")
        yield Row("step", seconds * 1e3, "ms")
        batch = trainer.load(batches)
        assert batch is not None
        yield from _measure_rows(
            trainer, batch.step_batch, work.lookup_bytes + work.update_bytes, ceiling, steps, clock
        )
        yield from _measure_products(trainer, batch.step_batch.batch, work.operations, ceiling, steps, clock)


def _measure_rows(
    trainer: Trainer, step_batch: StepBatch, traffic: int, ceiling: Ceiling, steps: int, clock: Clock
) -> Iterator[Row]:
    """Measure lookup and exact update: bytes read and written per second, and their ratio to a copy."""
    bags = trainer.exchange.send_ids(step_batch).wait()
    gradients = [torch.zeros_like(vectors) for vectors in trainer.tables.lookup(bags)]

    def look_up_and_update() -> None:
        trainer.tables.lookup(bags)
        trainer.tables.update(bags, gradients, 0.0)

    source = torch.ones(ceiling.copied_bytes, dtype=torch.uint8, device=trainer.world.device)
    target = torch.empty_like(source)
    rate = traffic / _time_call(look_up_and_update, steps, clock)
    limit = 2 * ceiling.copied_bytes / _time_call(lambda: target.copy_(source), steps, clock)
    yield Row("rows: read and written", rate / 1e9, "GB/s")
    yield Row("a copy: read and written", limit / 1e9, "GB/s")
    yield Row("rows, of a copy", rate / limit * PERCENT, "%")


def _measure_products(
    trainer: Trainer, batch: Batch, operations: int, ceiling: Ceiling, steps: int, clock: Clock
) -> Iterator[Row]:
    """Measure forward and backward of the dense layers: FLOP/s, and their ratio to one large product."""
    model, config = trainer.model, trainer.config
    pooled = torch.ones(len(batch.dense), sum(config.embedding.dims), device=batch.dense.device)

    device = trainer.world.device.type
    autocast = torch.autocast(device, torch.bfloat16, enabled=config.train.computes_in_bfloat16(device))

    def forward_and_backward() -> None:
        trainer.flat.begin(trainer.flat.sums.clone())
        with autocast:
            logits = model.top(model.bottom(batch.dense), pooled)
        logits.sum().backward()
        trainer.flat.replicated_ready()
        trainer.flat.wait()

    matrix = torch.ones(ceiling.width, ceiling.width, device=batch.dense.device)

    def multiply() -> None:
        with autocast:
            torch.mm(matrix, matrix)

    rate = operations / _time_call(forward_and_backward, steps, clock)
    limit = 2 * ceiling.width**3 / _time_call(multiply, steps, clock)
    yield Row("MLPs", rate / 1e12, "TFLOP/s")
    yield Row(f"a product of {ceiling.width:,}²", limit / 1e12, "TFLOP/s")
    yield Row("MLPs, of a product", rate / limit * PERCENT, "%")


def _time_call(call: Callable[[], object], times: int, clock: Clock) -> float:
    for _ in range(_WARM_UP_CALLS):
        call()
    return clock(call, times)


def main() -> None:
    """Measure and print the table."""
    parser = parser_of(__doc__)
    parser.add_argument("--steps", type=int, default=100, help="steps of each measurement (100)")
    arguments = parser.parse_args()
    if not torch.cuda.is_available():
        print("This machine has no GPU. Run python -m bench.gpu on a machine with a GPU.")
        return
    world = replace(World(rank=0, size=1), local_rank=torch.cuda.current_device())
    join(world)
    print(f"{torch.cuda.get_device_name()}, {SHAPE}")
    print(*lines(measure(world, SHAPE, Ceiling(), arguments.steps, by_events)), sep="\n", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
