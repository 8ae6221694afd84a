"""The scaling curve of the bundled trainer on this machine, and the error of predictions from smaller sizes.

    python -m bench.scaling

It runs `zmon scaling` with sizes up to twice the number of cores. If several ranks share a core, the model multiplies
computation and communication of a step by their number. This is coarse. Real steps are shorter, because waiting ranks
leave the core to others. They are also longer, because ranks on one core evict each other's caches. The benchmark
prints numbers but does not check them.
"""

from __future__ import annotations

import os
import tempfile

from bench.rows import parser_of
from lab.cli.scaling import scaling_command

_BATCH = 2048  # samples of one rank; with the demo's 512, communication would be mostly latency


def main() -> None:
    """Run the benchmark."""
    parser_of(__doc__).parse_args()
    cores = len(os.sched_getaffinity(0))
    sizes = [1 << n for n in range((2 * cores).bit_length())]
    with tempfile.TemporaryDirectory(prefix="zmon-bench-") as folder:
        words = ["--data-dir", folder, "--ranks", ",".join(map(str, sizes)), "--rounds", "3", "--batch", str(_BATCH)]
        scaling_command(words, standalone_mode=False)


if __name__ == "__main__":
    main()
