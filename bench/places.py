"""The time of a step that the C edge of the probe takes, by function.

    python -m bench.places [--seconds N]

It builds the C edge so that each function adds up its time, and runs the jobs of bench.overhead that have one rank. The
time of a function is the sum over its parts, and includes the clock readings between the parts. The build needs a C
compiler.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from bench.ranks import run_ranks
from bench.rows import parser_of
from bench.switching import JOBS

_MODULE = "zmon/probe/edge"


def main() -> None:
    """Build the edge, run the jobs and print a table for each."""
    parser = parser_of(__doc__)
    parser.add_argument("--seconds", type=float, default=5.0, help="seconds of steps of each job (5)")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="zmon-bench-") as folder:
        native = build(Path(folder))
        for job in (job for job in JOBS if job.ranks == 1):
            words = (job.kind, str(arguments.seconds), str(job.step_seconds), str(native))
            (result,) = run_ranks("bench.places_job", *words, seconds=60 + 3 * arguments.seconds, ranks=1)
            print(f"{job.title}, a step of {result['step'] * 1e3:.1f} ms: {result['reported']:.1f} µs", flush=True)
            for name, place in sorted(result["places"].items(), key=lambda item: -item[1]["microseconds"]):
                print(f"  {name:<28}{place['microseconds']:>8.2f} µs{place['parts']:>8.2f} parts")


def build(folder: Path) -> Path:
    """Build the C edge with the clock in each function; return the path of the module."""
    command = ["setup.py", "-q", "build_ext", "--build-lib", str(folder), "--build-temp", str(folder / "temp")]
    checkout = Path(__file__).parents[1]
    subprocess.run(
        [sys.executable, *command], cwd=checkout, env=os.environ | {"CFLAGS": "-DZMON_TIME_PLACES"}, check=True
    )
    (native,) = (folder / _MODULE).glob("native*.so")
    return native


if __name__ == "__main__":
    main()
