"""A hub's passes over a recorded stream of packed reports, for more ranks than can be played live.

    python -m bench.replay [--ranks N] [--passes N] [--every SECONDS]

First, every agent of bench.cluster records a report into a file each `--every` seconds, as for a hub whose passes take
that long. Then a hub reads the file: it decodes each report and runs all detectors after each round, as in a live pass,
but nothing is sent. `÷ real time` is the time of the replay divided by the time that was recorded.
"""

from __future__ import annotations

import resource
import statistics
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from bench.cluster import RANKS_PER_AGENT, STEP_SECONDS, Cluster
from bench.rows import parser_of, table_line
from zmon.hub import Hub, HubConfig
from zmon.hub.memory import limit_cycle_searches
from zmon.schema.api.packed import Resting, unpack

_HEADS = ("ranks", "agents", "recorded", "MB", "decode", "evaluate", "pass", "÷ real time", "resident")
_LENGTH_BYTES = 4
_WARM_PASSES = 2  # not measured: in the first pass, the hub gets the values that seldom change


def main() -> None:
    """Record, replay and print the table."""
    parser = parser_of(__doc__)
    parser.add_argument("--ranks", type=int, nargs="+", default=[16384, 100000], help="ranks of the cluster")
    parser.add_argument("--passes", type=int, default=10, help="recorded rounds (10)")
    parser.add_argument("--every", type=float, default=5.0, help="seconds between two rounds (5)")
    arguments = parser.parse_args()
    print(table_line(_HEADS, _HEADS), flush=True)
    for num_ranks in arguments.ranks:
        with tempfile.TemporaryDirectory(prefix="zmon-bench-") as folder:
            path = Path(folder) / "stream"
            record(path, num_ranks, arguments.passes + _WARM_PASSES, arguments.every)
            decode, evaluate = replay(path, num_ranks, Path(folder))
            seconds = statistics.fmean(decode) + statistics.fmean(evaluate)
            cells = (
                str(num_ranks), str(num_ranks // RANKS_PER_AGENT), f"{arguments.passes * arguments.every:.0f} s",
                f"{path.stat().st_size / 1e6:.0f}", f"{statistics.fmean(decode) * 1000:.0f} ms",
                f"{statistics.fmean(evaluate) * 1000:.0f} ms", f"{seconds * 1000:.0f} ms",
                f"{seconds / arguments.every:.2f}",
                f"{resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:.0f} MiB",
            )  # fmt: skip
            print(table_line(cells, _HEADS), flush=True)


def record(path: Path, num_ranks: int, passes: int, every: float) -> None:
    """Write the packed reports of all agents in this many rounds, each after its length."""
    cluster = Cluster(num_ranks)
    known = [Resting()] * (num_ranks // RANKS_PER_AGENT)
    with path.open("wb") as file:
        for number in range(passes):
            cluster.elapsed = (number + 1) * every
            since = int(number * every / STEP_SECONDS) if number else -1
            for agent, resting in enumerate(known):
                body = cluster.packed_report(agent, since, resting.version)
                if not number:
                    known[agent] = unpack(body, resting)[1]
                file.write(len(body).to_bytes(_LENGTH_BYTES, "little") + body)


def replay(path: Path, num_ranks: int, folder: Path) -> tuple[list[float], list[float]]:
    """Return the seconds of processor time to decode and to evaluate, of each pass but the first ones."""
    num_agents = num_ranks // RANKS_PER_AGENT
    hub = Hub(HubConfig(tuple(f"http://node-{agent}:9780" for agent in range(num_agents)), folder))
    decode, evaluate = [], []
    with path.open("rb") as file:
        reports = _reports(file)
        while bodies := [body for _, body in zip(range(num_agents), reports, strict=False)]:
            begin = time.process_time()
            for link, body in zip(hub.links, bodies, strict=True):
                report, link.resting = unpack(body, link.resting)
                link.record_report(report)
            middle = time.process_time()
            hub.evaluate(time.time())
            limit_cycle_searches(num_ranks)
            decode.append(middle - begin)
            evaluate.append(time.process_time() - middle)
    (snapshot,) = hub.snapshots
    assert len(snapshot.ranks) == num_ranks
    assert snapshot.steps
    return decode[_WARM_PASSES:], evaluate[_WARM_PASSES:]


def _reports(file: BinaryIO) -> Iterator[bytes]:
    while length := file.read(_LENGTH_BYTES):
        yield file.read(int.from_bytes(length, "little"))


if __name__ == "__main__":
    main()
