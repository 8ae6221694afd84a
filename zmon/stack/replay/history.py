"""Writes what Prometheus knew about a recorded job before its fault, so that charts do not begin empty."""

from __future__ import annotations

import subprocess
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from zmon.errors import PartFailed
from zmon.stack import find_program
from zmon.stack.replay import PastSeries

DATES = "_timestamp_seconds"  # the names of metrics whose values are unix times end like this
_SECONDS = 20.0  # it takes less than one


def fill(history: Iterable[PastSeries], later: float, until: float, instances: Mapping[str, str], folder: Path) -> None:
    """Write the series into the data of a Prometheus that does not run yet, later by `later` seconds.

    `until`: what is later than this unix time is left out. `instances`: the addresses of hosts and hub, which
    Prometheus scrapes from then on. Without promtool the charts begin with the first scrape.
    """
    try:
        promtool = find_program("promtool")
    except PartFailed:
        return
    page = folder.parent / "history.txt"
    page.write_text("".join(openmetrics(history, later, until, instances)))
    command = [promtool, "tsdb", "create-blocks-from", "openmetrics", "--quiet", str(page), str(folder)]
    subprocess.run(command, capture_output=True, timeout=_SECONDS, check=False)
    page.unlink()


def openmetrics(
    history: Iterable[PastSeries], later: float, until: float, instances: Mapping[str, str]
) -> Iterator[str]:
    """Yield the lines of a page that promtool makes blocks of."""
    for series in history:
        labels = {name: value for name, value in series.labels.items() if name != "__name__"}
        if (instance := labels.get("instance")) is not None:
            labels["instance"] = instances.get(instance, instance)
        text = ",".join(f'{name}="{_escaped(value)}"' for name, value in sorted(labels.items()))
        name = series.labels["__name__"]
        value_later = later if name.endswith(DATES) else 0.0
        for time, value in series.points:
            if time + later <= until:
                yield f"{name}{{{text}}} {value + value_later!r} {time + later:.3f}\n"
    yield "# EOF\n"


def _escaped(value: str) -> str:
    return value.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
