"""The GPU kit: checks what zmon reports about a GPU, and prints a report.

    python -m bench.gpu_check [--only CHECK…] [--seconds N]

`make gpu-check` starts it in an environment that needs no network. The report is Markdown on stdout, progress goes to
stderr. The report lists what this machine cannot check, and the reason. All checks end within N seconds, plus a few
seconds to end processes that still run. Exit codes: 0 nothing failed, 1 a check failed, 2 wrong arguments.
"""

from __future__ import annotations

import signal
import sys
import tempfile
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from bench.gpu_check.checks import ALL
from bench.gpu_check.kit import Check, Kit
from bench.gpu_check.machine import this_machine
from bench.gpu_check.report import line, report, summary
from bench.gpu_check.result import FAILED, Result
from bench.gpu_check.running import results
from bench.rows import parser_of
from lab.stage.launched import kill_all

SECONDS = 480.0


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the checks and print the report; return the exit code."""
    parser = parser_of(__doc__)
    names = [check.name for check in ALL]
    parser.add_argument("--only", nargs="+", choices=names, metavar="CHECK", help=f"run only these: {', '.join(names)}")
    parser.add_argument("--seconds", type=float, default=SECONDS, help=f"time for all checks together ({SECONDS:.0f})")
    options = parser.parse_args(arguments)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))  # so that `finally` ends all processes
    begin = time.monotonic()
    checks = [check for check in ALL if options.only is None or check.name in options.only]
    with tempfile.TemporaryDirectory(prefix="zmon-gpu-", dir="/dev/shm") as folder:
        try:
            kit = Kit(this_machine(), Path(folder), begin + options.seconds)
            by_title = {check.title: _run_and_print(check, kit) for check in checks}
        finally:
            kill_all(Path(folder))
    seconds = time.monotonic() - begin
    print(*report(kit.machine, by_title, f"{datetime.now(UTC):%Y-%m-%d}", seconds), sep="\n", flush=True)
    flat = [result for table in by_title.values() for result in table]
    _say(summary(flat))
    return int(any(result.outcome == FAILED for result in flat))


def _run_and_print(check: Check, kit: Kit) -> list[Result]:
    """Run a check. Print each result at once, because the command may be ended before it prints the report."""
    _say(f"{check.name}: {check.title}")
    printed = []
    for result in results(check, kit):
        _say(f"  {line(result)}")
        printed.append(result)
    return printed


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
