"""The bundled trainer beside facebookresearch/dlrm and TorchRec, on two ranks of one thread each.

    python -m bench.rivals --dlrm PATH [--rounds N]

PATH is a checkout of facebookresearch/dlrm. TorchRec takes part if it is installed: `python -m tests.frameworks` makes
an environment with it, `.frameworks/torchrec/bin/python`. All trainers start from the same weights and train on the
same batches, in turns, in the same two processes. The first steps must have the same losses, up to rounding.
"""

from __future__ import annotations

import json
import statistics
from dataclasses import asdict
from pathlib import Path
from typing import Any

from bench.dlrm import Shape
from bench.ranks import run_ranks
from bench.rivals.job import DLRM, DLRM_SGD, OURS, OURS_BF16, OURS_SGD, TORCHREC
from bench.rows import load_line, parser_of, table_line
from bench.trainer_job import BLOCK_STEPS, WARM_UP_STEPS

# Each run, and the run of the bundled trainer with which it is compared.
_REFERENCES = {OURS_BF16: OURS, DLRM: OURS, TORCHREC: OURS, DLRM_SGD: OURS_SGD}
_HEADS = ("pooling", "trainer", "ms a step", "CPU ms", "÷ ours", "from", "to", "loss differs")
_ROUND_SECONDS = 60  # if a round takes longer, the run is aborted


def main() -> None:
    """Measure and print the table."""
    parser = parser_of(__doc__)
    parser.add_argument("--dlrm", metavar="PATH", default="", help="a checkout of facebookresearch/dlrm")
    parser.add_argument("--rounds", type=int, default=20, help=f"blocks of {BLOCK_STEPS} steps of each trainer (20)")
    arguments = parser.parse_args()
    path = Path(arguments.dlrm).resolve() if arguments.dlrm else None
    if path and not (path / "dlrm_s_pytorch.py").exists():
        parser.error(f"{path} has no dlrm_s_pytorch.py: it is no checkout of facebookresearch/dlrm. Clone it there")
    print(table_line(_HEADS, _HEADS), flush=True)
    for pooling in (1, 20):
        words = (json.dumps(asdict(Shape(pooling))), str(arguments.rounds), str(path or ""))
        seconds = 120 + arguments.rounds * _ROUND_SECONDS
        for cells in lines(pooling, run_ranks("bench.rivals.job", *words, seconds=seconds)):
            print(table_line(cells, _HEADS), flush=True)
    print(load_line())


def lines(pooling: int, results: list[dict[str, Any]]) -> list[tuple[str, ...]]:
    """Return a line for each trainer. Ratios are medians over rounds, with the quartiles."""
    rounds = {name: _rounds(results, name) for name in results[0]["seconds"]}
    table: list[tuple[str, ...]] = []
    for name, round_seconds in rounds.items():
        cpu = statistics.median(value for rank in results for value in rank["cpu_seconds"][name])
        steps = statistics.median(value for rank in results for value in rank["seconds"][name])
        cells = ("", "", "", "")
        if name in _REFERENCES:
            ours = _REFERENCES[name]
            ratios = (seconds / our_seconds for seconds, our_seconds in zip(round_seconds, rounds[ours], strict=True))
            low, middle, high = statistics.quantiles(ratios, n=4)
            losses, our_losses = results[0]["losses"][name], results[0]["losses"][ours]
            difference = max(abs(loss / our_loss - 1) for loss, our_loss in zip(losses, our_losses, strict=True))
            cells = (f"{middle:.2f}", f"{low:.2f}", f"{high:.2f}", f"{difference:.0e}")
        table.append((str(pooling), name, f"{steps * 1e3:.1f}", f"{cpu * 1e3:.1f}", *cells))
    return table


def _rounds(results: list[dict[str, Any]], name: str) -> list[float]:
    """Return the median seconds of a step in each round, over all ranks."""
    size = BLOCK_STEPS - WARM_UP_STEPS
    by_rank = [rank["seconds"][name] for rank in results]
    return [
        statistics.median([value for seconds in by_rank for value in seconds[first : first + size]])
        for first in range(0, len(by_rank[0]), size)
    ]


if __name__ == "__main__":
    main()
