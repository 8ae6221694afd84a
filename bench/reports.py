"""The size of an agent's report, and the time to encode and decode it: JSON against the packed form. Takes seconds.

    python -m bench.reports

The agent has eight ranks with eight phases and four ops, as in bench.cluster, and no GPUs. `records` is the number of
sampled steps of each rank. The packed report is not the first one of its agent: it leaves out the values that seldom
change, because the hub has them already. `bytes a step` counts only the steps, for each rank and sampled step.
"""

from __future__ import annotations

import timeit
from collections.abc import Callable, Iterator

import msgspec

from bench.cluster import RANKS_PER_AGENT, STEP_SECONDS, Cluster
from bench.rows import US_PER_SECOND, table_line
from zmon.schema.api.agent import AgentReport
from zmon.schema.api.packed import Resting, pack, unpack
from zmon.schema.api.received import decode

_HEADS = ("records", "form", "bytes a rank", "encode a rank", "decode a rank", "bytes a step")
_CALLS = 300  # of one try
_TRIES = 5  # the best one counts


def main() -> None:
    """Measure and print the table."""
    print(table_line(_HEADS, _HEADS))
    cluster = Cluster(16384)
    cluster.elapsed = 1000 * STEP_SECONDS
    for number in (0, 4, 8):
        report = msgspec.json.decode(msgspec.json.encode(cluster.report(3, 1000 - number)), type=AgentReport)
        for cells in compare(report, number):
            print(table_line(cells, _HEADS))


def compare(report: AgentReport, num_records: int) -> Iterator[tuple[str, ...]]:
    """Yield the cells of both forms of a report."""
    _, resting = unpack(pack(report, ""), Resting())
    text = msgspec.json.encode(report)
    packed = pack(report, resting.version)
    cells = _cells(text, lambda: msgspec.json.encode(report), lambda: decode(text, AgentReport))
    yield (str(num_records), "JSON", *cells, "")
    cells = _cells(packed, lambda: pack(report, resting.version), lambda: unpack(packed, resting))
    columns = len(msgspec.msgpack.encode(report.steps))
    yield (
        str(num_records), "packed", *cells, f"{columns / RANKS_PER_AGENT / num_records:.0f}" if num_records else "",
    )  # fmt: skip


def _cells(body: bytes, encode_report: Callable[[], object], decode_body: Callable[[], object]) -> tuple[str, str, str]:
    """Return the bytes, and the microseconds to encode and to decode, for each rank."""
    return (
        f"{len(body) / RANKS_PER_AGENT:.0f}",
        f"{_seconds(encode_report) / RANKS_PER_AGENT * US_PER_SECOND:.1f} us",
        f"{_seconds(decode_body) / RANKS_PER_AGENT * US_PER_SECOND:.1f} us",
    )


def _seconds(function: Callable[[], object]) -> float:
    """Return the time of one call: the best of some tries."""
    return min(timeit.repeat(function, number=_CALLS, repeat=_TRIES)) / _CALLS


if __name__ == "__main__":
    main()
