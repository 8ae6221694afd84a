"""An asynchronous job: it starts readers and workers, waits for them, and evaluates the model that they trained.

    zmon run -- python -m bench.asynchronous.job [--workers N] [--slow] [--seed N] [--steps N]

It sets RANK, WORLD_SIZE and LOCAL_RANK for each worker, as a launcher does for ranks. Otherwise zmon would take each
worker for rank 0 of 1.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from queue import Empty

import torch
import torch.multiprocessing as multiprocessing

from bench.asynchronous.readers import start_readers
from bench.asynchronous.shared import Shared, dense_model, logits
from bench.asynchronous.worker import Trained, work
from bench.rows import parser_of
from bench.wire import MODEL, warm_up_and_decay
from trainer.keys import apply_changes
from trainer.quality import Quality, auc, quality, sums
from trainer.scale.config import RunConfig
from trainer.scale.presets import demo
from trainer.synthetic import Synthetic

STEPS = 1000  # of the synchronous trainer
HELD_OUT = 100  # global batches for the evaluation
# The best of doubled rates at seed 11, for 1, 2 and 4 workers and for the synchronous trainer. With that of bench.wire,
# asynchronous training is 2 % worse: an average of replicas moves by the mean of their updates, not by their sum.
_DENSE_RATE = 0.16
_POLL_SECONDS = 1.0


@dataclass(frozen=True)
class Outcome:
    """The result of a job."""

    quality: Quality  # on held-out samples
    trained: tuple[Trained, ...]  # of each worker, in the order of their ends

    @property
    def samples_per_second(self) -> float:
        """Samples of all workers, from the first step of any to the end of the last."""
        seconds = max(worker.end for worker in self.trained) - min(worker.begin for worker in self.trained)
        return sum(worker.samples for worker in self.trained) / seconds


def configuration(seed: int, steps: int, held_out: int) -> RunConfig:
    """Return the configuration of both trainers, whose model is that of bench.wire."""
    changes = {
        "train": {"seed": seed, "steps": steps},
        "schedule": warm_up_and_decay(steps),
        "optimizer": {"dense_learning_rate": _DENSE_RATE},
        "evaluation": {"batches": held_out},
    }
    return apply_changes(demo(), [MODEL, changes])


def source_of(config: RunConfig) -> Synthetic:
    """Return the source of the samples."""
    return Synthetic(config.synthetic, config.embedding.rows, config.model.dense_features, config.train.seed)


def run(config: RunConfig, workers: int, has_slow_worker: bool) -> Outcome:
    """Train on all samples of `config` and evaluate. A slow worker, the last one, takes twice as long for its steps.

    Raises RuntimeError if a worker ends without a result.
    """
    context = multiprocessing.get_context("spawn")
    results = context.Queue()
    ready = context.Barrier(workers)
    shared = Shared.initial(config)
    readers, pieces = start_readers(context, source_of(config), config, workers)
    processes = []
    for number in range(workers):
        arguments = (number, workers, has_slow_worker, config, shared, pieces, ready, results)
        processes.append(context.Process(target=work, args=arguments, daemon=True))
        with _as_rank(number, workers):
            processes[-1].start()
    trained: list[Trained] = []
    try:
        while len(trained) < workers:
            try:
                trained.append(results.get(timeout=_POLL_SECONDS))
            except Empty:
                if any(process.exitcode for process in (*readers, *processes)):
                    raise RuntimeError(
                        "a worker or a reader ended before all samples were trained on: its error is above"
                    ) from None
        for process in processes:
            process.join()
    finally:
        for process in (*readers, *processes):
            process.terminate()
            process.join()
    return Outcome(_evaluate(config, shared), tuple(trained))


@contextmanager
def _as_rank(number: int, workers: int) -> Iterator[None]:
    """Set the variables of a rank during the block; a process that is started in it inherits them."""
    variables = {"RANK": number, "LOCAL_RANK": number, "WORLD_SIZE": workers, "LOCAL_WORLD_SIZE": workers}
    os.environ |= {name: str(value) for name, value in variables.items()}
    yield
    for name in variables:
        del os.environ[name]


def _evaluate(config: RunConfig, shared: Shared) -> Quality:
    """Return the quality of the shared tables and the center of the dense layers."""
    model = dense_model(config)
    source = source_of(config).held_out()
    torch.nn.utils.vector_to_parameters(shared.center, model.parameters())
    predicted, labels = [], []
    with torch.no_grad():
        for number in range(config.evaluation.batches):
            batch = source.batch(number, 0, config.train.global_batch)
            predicted.append(logits(model, batch, shared.tables.lookup(shared.bags(batch))))
            labels.append(batch.labels)
    every_logit, every_label = torch.cat(predicted), torch.cat(labels)
    return quality(sums(every_logit, every_label), auc(every_logit, every_label))


def main() -> None:
    """Run one job and print its result."""
    parser = parser_of(__doc__)
    parser.add_argument("--workers", type=int, default=4, help="workers (4)")
    parser.add_argument("--slow", action="store_true", help="the last worker takes twice as long for its steps")
    parser.add_argument("--seed", type=int, default=1, help="seed of weights and samples (1)")
    parser.add_argument("--steps", type=int, default=STEPS, help=f"steps of the synchronous trainer ({STEPS})")
    arguments = parser.parse_args()
    outcome = run(configuration(arguments.seed, arguments.steps, HELD_OUT), arguments.workers, arguments.slow)
    shares = ", ".join(f"{worker.samples:,}" for worker in outcome.trained)
    quality = outcome.quality
    print(f"{outcome.samples_per_second:,.0f} samples/s, NE {quality.normalized_entropy:.5f}, AUC {quality.auc:.5f}")
    print(f"samples of the workers in the order of their ends: {shares}")


if __name__ == "__main__":
    main()
