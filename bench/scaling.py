"""The curve of the bundled trainer on this machine, and how far off its prediction from smaller sizes is.

    python -m bench.scaling [--quick]

It is `zmon scaling` with sizes that fill the cores and twice as many ranks: where ranks take turns on cores, the model
says that a step takes as many times as long, in what ranks compute and in what they exchange alike. That is coarse:
ranks that wait for each other leave a core to others, which makes it pessimistic, and ranks that evict each other's
caches are slower for it, which makes it the other way. Prints numbers and asserts none.
"""

from __future__ import annotations

import argparse
import os
import tempfile

from zmon.cli.main import cli

_BATCH = 2048  # of one rank: exchanges of the demo's 512 are mostly latency


def main() -> None:
    """Run it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="two short runs: to see that it works")
    quick = parser.parse_args().quick
    cores = len(os.sched_getaffinity(0))
    sizes = [1, 2] if quick else [1 << n for n in range((2 * cores).bit_length())]
    effort = ["--rounds", "1", "--seconds", "3", "--mode", "weak"] if quick else ["--rounds", "3"]
    with tempfile.TemporaryDirectory(prefix="zmon-bench-") as folder:
        words = ["scaling", "--data-dir", folder, "--ranks", ",".join(map(str, sizes)), *effort]
        cli([*words, "--batch", str(_BATCH)], standalone_mode=False)


if __name__ == "__main__":
    main()
