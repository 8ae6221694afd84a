"""A cluster of 16,384 ranks through eight collectors, of which one dies during a stall. Takes three minutes.

    python -m bench.collectors [--ranks N] [--collectors N]

It prints what the hub says at each moment: the coverage of the job, and the active findings. The finding about the
stopped rank must stand while its collector is dead, although the rank goes on meanwhile. It must be resolved once the
collector is back.
"""

from __future__ import annotations

import argparse
import time
import urllib.request
from collections.abc import Callable

from bench.agent import daemon
from bench.hub import RunningHub, get, post, running_hub, wait_for_job
from bench.rows import table_line

_HEADS = ("moment", "seconds", "coverage", "active findings")
_SETTLE_SECONDS = 20.0
_MOST_SECONDS = 60.0
_HOLD_SECONDS = 15.0  # the collector is dead, and the rank goes on


def main() -> None:
    """Play it and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ranks", type=int, default=16384, help="ranks of the cluster (16,384)")
    parser.add_argument("--collectors", type=int, default=8, help="collectors between hub and agents (8)")
    arguments = parser.parse_args()
    print(table_line(_HEADS, _HEADS), flush=True)
    with running_hub(arguments.ranks, arguments.collectors) as running:
        wait_for_job(running, arguments.ranks)
        time.sleep(_SETTLE_SECONDS)
        _show(running, "all answer", 0.0)
        play(running, rank=0)


def play(running: RunningHub, rank: int) -> None:
    """Stop a rank of the first collector, end that collector, let the rank go on, and start the collector again."""
    begin = time.monotonic()
    post(f"{running.cluster}/strike/{rank}")
    _wait(lambda: any(finding["ranks"] == [rank] for finding in _active(running)))
    _show(running, "rank stopped", time.monotonic() - begin)
    begin, first = time.monotonic(), running.collectors[0]
    command = first.cmdline()
    first.kill()
    first.wait()
    _wait(lambda: _coverage(running) < 1.0)
    _show(running, "collector dead", time.monotonic() - begin)
    post(f"{running.cluster}/continue")
    time.sleep(_HOLD_SECONDS)
    _show(running, "rank goes on", _HOLD_SECONDS)
    with daemon(*command[command.index("zmon") + 1 :]):
        begin = time.monotonic()
        _wait(lambda: _coverage(running) == 1.0)
        _show(running, "collector back", time.monotonic() - begin)
        _wait(lambda: not _active(running))
        _show(running, "resolved", time.monotonic() - begin)


def _show(running: RunningHub, moment: str, seconds: float) -> None:
    causes = ", ".join(f"{finding['cause']} {finding['ranks'] or ''}".strip() for finding in _active(running))
    print(table_line((moment, f"{seconds:.1f} s", f"{_coverage(running):.3f}", causes or "none"), _HEADS), flush=True)


def _active(running: RunningHub) -> list[dict[str, object]]:
    findings: list[dict[str, object]] = get(f"{running.url}/api/v1/findings?active=1")["findings"]
    return findings


def _coverage(running: RunningHub) -> float:
    with urllib.request.urlopen(f"{running.url}/metrics", timeout=30) as answer:
        lines = answer.read().decode().splitlines()
    return next(float(line.split()[-1]) for line in lines if line.startswith("zmon_hub_coverage_ratio{"))


def _wait(is_true: Callable[[], bool]) -> None:
    end = time.monotonic() + _MOST_SECONDS
    while time.monotonic() < end and not is_true():
        time.sleep(0.1)


if __name__ == "__main__":
    main()
