"""Answers of a store over time, when an alert would fire by them, and how much two answers differ."""

from collections.abc import Mapping
from dataclasses import dataclass
from statistics import median

import requests

Labels = tuple[tuple[str, str], ...]
Answer = Mapping[Labels, Mapping[float, float]]  # values by time, by labels


def over_time(url: str, promql: str, start: float, end: float, step: float) -> Answer:
    """Return the values of a query at each step, by labels without that of the shard.

    A series has its name only if the query selects names: the two stores differ in which functions drop it.
    """
    ignored = {"shard"} if "__name__" in promql else {"shard", "__name__"}
    form = {"query": promql, "start": start, "end": end, "step": step}
    answer = requests.post(f"{url}/api/v1/query_range", data=form, timeout=60).json()
    assert answer["status"] == "success", (promql, answer)
    return {
        tuple(sorted((name, value) for name, value in series["metric"].items() if name not in ignored)): {
            float(time): float(value) for time, value in series["values"]
        }
        for series in answer["data"]["result"]
    }


@dataclass(frozen=True)
class Period:
    """A time in which an alert fires, from the first to the last evaluation."""

    labels: Labels
    begin: float
    end: float

    def is_near(self, other: "Period", seconds: float) -> bool:
        """Return True if the alert has the same labels, and begins and ends within this many seconds."""
        return (
            self.labels == other.labels
            and abs(self.begin - other.begin) <= seconds
            and abs(self.end - other.end) <= seconds
        )


def firing(answer: Answer, every: float, pending: float) -> list[Period]:
    """Return when an alert fires whose expression has this answer and is evaluated once in `every` seconds."""
    periods = []
    for labels, values in answer.items():
        times = sorted(values)
        begin = 0
        for number, time in enumerate(times):
            if number + 1 == len(times) or times[number + 1] - time > 1.5 * every:
                if time - times[begin] >= pending:
                    periods.append(Period(labels, times[begin] + pending, time))
                begin = number + 1
    return sorted(periods, key=lambda period: (period.begin, period.labels))


@dataclass(frozen=True)
class Difference:
    """The difference of two answers about the same series. Ratios are of the larger value."""

    num_points: int
    only_in_one: int  # points that only one of the answers has
    median: float
    nine_of_ten: float
    worst: float


def difference(one: Answer, other: Answer) -> Difference:
    """Return the difference of two answers. Their series must have the same labels."""
    assert one.keys() == other.keys(), f"only in one: {sorted(one.keys() ^ other.keys())[:4]}"
    ratios = [0.0]  # one more than points, so that there is always a median
    only = 0
    for labels, values in one.items():
        others = other[labels]
        only += len(values.keys() ^ others.keys())
        ratios += [_ratio(values[time], others[time]) for time in values.keys() & others.keys()]
    ratios.sort()
    nine = ratios[int(0.9 * len(ratios))]
    return Difference(len(ratios) + only - 1, only, median(ratios), nine, ratios[-1])


def _ratio(one: float, other: float) -> float:
    if one == other or (one != one and other != other):
        return 0.0
    return abs(one - other) / max(abs(one), abs(other))
