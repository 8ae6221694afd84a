"""Turn the events of one rank's Chrome trace into steps. Pure."""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Sequence

from zmon.offline.analyze.formats.kineto_parts import TraceEvent, parts_of
from zmon.offline.analyze.intervals import Interval, partition, subtract, within
from zmon.schema.measures import ns
from zmon.schema.names import OPS, in_order
from zmon.schema.steps import DURATION, START, RankSteps


def steps(events: Sequence[TraceEvent]) -> RankSteps:
    """Return the steps of one rank."""
    parts = parts_of(events)
    windows = parts.device_steps if parts.device_steps.keys() == parts.steps.keys() else parts.steps
    in_time = sorted(windows.items(), key=lambda item: item[1])
    begins = [begin for _, (begin, _) in in_time]

    def split(intervals: Iterable[Interval]) -> list[list[Interval]]:
        """Return the parts of the intervals in each step."""
        by_step: list[list[Interval]] = [[] for _ in in_time]
        for begin, end in intervals:
            for index in range(max(bisect_right(begins, begin) - 1, 0), len(in_time)):
                if begins[index] >= end:
                    break
                by_step[index] += within([(begin, end)], *in_time[index][1])
        return by_step

    ops = in_order(parts.communication, OPS)
    communication = {op: split(parts.communication[op]) for op in ops}
    working = split(parts.working)
    phases = {phase: split(parts.phases[phase]) for phase in ("data", "h2d", "optimizer", "backward", "forward")}
    result = RankSteps()
    for index, (number, (begin, end)) in enumerate(in_time):
        if end <= begin:
            continue
        exposed = {op: subtract(each[index], working[index]) for op, each in communication.items()}
        first, *others = phases
        ordered = [phases[first][index], *exposed.values(), *(phases[phase][index] for phase in others), [(begin, end)]]
        seconds = partition(ordered)
        by_phase = dict(zip((first, *others, "other"), (seconds[0], *seconds[1 + len(ops) :]), strict=True))
        by_op = dict(zip(ops, seconds[1 : 1 + len(ops)], strict=True))
        sent, received = _sums(parts.sent, parts.steps.get(number, (begin, end)))
        numbers = {START: ns(begin), DURATION: ns(end - begin)}
        numbers |= {f"phase_{phase}": ns(value) for phase, value in by_phase.items() if value > 0}
        for op in ops:
            if each := communication[op][index]:
                numbers |= {
                    f"calls_{op}": len(each),
                    f"exposed_{op}": ns(by_op[op]),
                    f"inflight_{op}": ns(sum(e - b for b, e in each)),
                    f"bytes_sent_{op}": sent.get(op, 0),
                    f"bytes_received_{op}": received.get(op, 0),
                }
        result.add(number, numbers)
    return result


def _sums(collectives: Iterable[tuple[float, str, int, int]], step: Interval) -> tuple[dict[str, int], dict[str, int]]:
    sent: defaultdict[str, int] = defaultdict(int)
    received: defaultdict[str, int] = defaultdict(int)
    for begin, op, sent_bytes, received_bytes in collectives:
        if step[0] <= begin < step[1]:
            sent[op] += sent_bytes
            received[op] += received_bytes
    return sent, received
