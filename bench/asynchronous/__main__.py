"""Asynchronous beside synchronous training. `python -m bench.asynchronous` takes 30 minutes on two cores.

Both train the same model from the same weights on the same samples, once with equal workers and once with a last worker
that takes twice as long for its own work. Workers of both kinds have one thread. The synchronous trainer divides a
global batch over its ranks; an asynchronous worker trains on such a share alone, so it makes as many updates as there
are workers for each synchronous one. The learning rates are the best for both (see the job).

A row misses an update if another worker updates it between a worker's look-up and its own update. NE is normalized
entropy of held-out samples; its difference is to the synchronous run of the same seed and speed.
"""

from __future__ import annotations

from bench.asynchronous import report
from bench.asynchronous.job import HELD_OUT, STEPS, configuration, run
from bench.asynchronous.report import ASYNCHRONOUS, HEADS, SYNCHRONOUS, Run
from bench.ranks import run_ranks
from bench.rows import T_QUANTILES, load_line, parser_of, table_line

_MAX_SECONDS = 600  # of a synchronous run; a longer one is aborted


def main() -> None:
    """Train and print the table."""
    parser = parser_of(__doc__)
    parser.add_argument("--seeds", type=int, default=5, choices=T_QUANTILES, help="number of seeds (5)")
    parser.add_argument("--steps", type=int, default=STEPS, help=f"steps of the synchronous trainer ({STEPS:,})")
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 2, 4], help="workers, or ranks (1 2 4)")
    arguments = parser.parse_args()
    print(table_line(HEADS, HEADS), flush=True)
    for workers in arguments.workers:
        for speed in ("even", "slow"):
            both = [_both(seed, arguments.steps, workers, speed) for seed in range(1, arguments.seeds + 1)]
            synchronous = [pair[0] for pair in both]
            for name, runs in ((SYNCHRONOUS, synchronous), (ASYNCHRONOUS, [pair[1] for pair in both])):
                print(table_line(report.cells(name, workers, speed, runs, synchronous), HEADS), flush=True)
    print(load_line())


def _both(seed: int, steps: int, workers: int, speed: str) -> tuple[Run, Run]:
    """Train in both ways. Return the synchronous run, then the asynchronous one."""
    config = configuration(seed, steps, HELD_OUT)
    outcome = run(config, workers, speed == "slow")
    samples = sum(worker.samples for worker in outcome.trained)
    ids = sum(worker.ids for worker in outcome.trained) / samples
    averagings = sum(worker.averagings for worker in outcome.trained) / samples if workers > 1 else 0.0
    missed = tuple(map(sum, zip(*(worker.missed for worker in outcome.trained), strict=True)))
    sent = report.asynchronous_bytes(config, ids, averagings)
    quality = outcome.quality
    asynchronous = Run(outcome.samples_per_second, quality.normalized_entropy, quality.auc, sent, missed)
    words = (str(seed), str(steps), str(HELD_OUT), speed)
    result = run_ranks("bench.asynchronous.ranks", *words, seconds=_MAX_SECONDS, ranks=workers)[0]
    return Run(**result, network_bytes=report.synchronous_bytes(config, workers, ids)), asynchronous


if __name__ == "__main__":
    main()
