"""Numbers and texts of an incident as a person reads them, in the report and at the terminal alike. Pure."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Any

from zmon.schema.evidence import FlightRow

UNKNOWN = "unknown"
_ESCAPES = re.compile(r"\x1b(\[[0-9;?]*[ -/]*[@-~]|\][^\x07\x1b]*(\x07|\x1b\\)?|.)?")
_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


def plain(text: str) -> str:
    """Without colours, cursor movements and other control characters; of a line that was overwritten, what was left."""
    shown = (line.rstrip("\r").rpartition("\r")[2] for line in _ESCAPES.sub("", text).split("\n"))
    return _CONTROLS.sub("", "\n".join(shown))


def seconds(value: float | None) -> str:
    """In a unit that fits."""
    if value is None:
        return UNKNOWN
    if abs(value) < 0.9995:
        return f"{value * 1000:.3g} ms"
    if abs(value) < 120:
        return f"{value:.3g} s"
    return f"{value / 60:.0f} min" if abs(value) < 7200 else f"{value / 3600:.1f} h"


def since(value: float) -> str:
    """From the first sign: +1.3 s."""
    return ("−" if value <= -0.05 else "+") + (f"{abs(value):.1f} s" if abs(value) < 120 else seconds(abs(value)))


def amount(value: float | None, unit: str = "B") -> str:
    """Bytes, or Hz, with a prefix."""
    if value is None:
        return UNKNOWN
    for prefix in ("", "k", "M", "G"):
        if abs(value) < 1000:
            return f"{value:.3g} {prefix}{unit}"
        value /= 1000
    return f"{value:.3g} T{unit}"


def moment(value: float | None) -> str:
    """Day and time, UTC: the readers are in several time zones."""
    return UNKNOWN if value is None else f"{datetime.fromtimestamp(value, UTC):%Y-%m-%d %H:%M:%S} UTC"


def day(value: float) -> str:
    """The same in a list."""
    return f"{datetime.fromtimestamp(value, UTC):%d %b %H:%M:%S}"


def clock(value: float) -> str:
    """Time of the day, UTC."""
    return f"{datetime.fromtimestamp(value, UTC):%H:%M:%S.%f}"[:-5]


def state(row: Any) -> str:
    """What a rank was at: a RankRow in few words."""
    if not row.watched:
        return "not watched"
    if not row.alive:
        return f"gone: {(row.exit_status or 'nobody knows how').removeprefix('signal ')}"
    stopped = {"T": "stopped", "t": "traced", "D": "in uninterruptible sleep"}.get(row.process_state or "")
    return stopped or ("waits" if row.op else "runs")


def pending(row: FlightRow | None) -> str:
    """A rank's flight record in few words: its oldest operation, how many more, or why it is not known."""
    if row is None:
        return ""
    if not row.pending:
        last = ", ".join(f"{group} {number}" for group, number in (row.last or {}).items())
        return row.error or (f"nothing pending, done up to {last}" if last else "nothing pending")
    first, more = row.pending[0], (row.num_pending or 1) - 1
    age = "" if first.age_seconds is None else f" since {seconds(first.age_seconds)}"
    return f"{first.op} #{first.sequence} of {first.group}{age}" + (f", and {more} more" if more > 0 else "")
