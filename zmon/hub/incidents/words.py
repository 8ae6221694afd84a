"""Formats for the numbers and texts of an incident, shared by the report page and the terminal. Pure."""

from __future__ import annotations

import re
from datetime import UTC, datetime

from zmon.format import UNKNOWN, duration
from zmon.schema.gathered import FlightRow
from zmon.schema.incident import IncidentRank
from zmon.schema.rank import FROZEN

# Escape sequences of a terminal: colours and cursor movements, titles and links, and sequences of one character.
_ESCAPES = re.compile(r"\x1b(\[[0-9;?]*[ -/]*[@-~]|\][^\x07\x1b]*(\x07|\x1b\\)?|.)?")
# Control characters except tab and newline, and those that change the direction of the text.
_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


def plain(text: str) -> str:
    """Return the text without colours, cursor movements and other control characters.

    If a line was overwritten with carriage returns, only its last version remains.
    """
    shown = (line.rstrip("\r").rpartition("\r")[2] for line in _ESCAPES.sub("", text).split("\n"))
    return _CONTROLS.sub("", "\n".join(shown))


def since(seconds: float) -> str:
    """Return a time relative to the first sign, such as +1.3 s."""
    sign = "−" if seconds <= -0.05 else "+"
    return sign + (f"{abs(seconds):.1f} s" if abs(seconds) < 120 else duration(abs(seconds)))


def amount(value: float | None, unit: str = "B") -> str:
    """Return an amount of bytes, or of another unit, with a decimal prefix."""
    if value is None:
        return UNKNOWN
    for prefix in ("", "k", "M", "G"):
        if abs(value) < 999.5:  # above it, three digits are 1e+03
            return f"{value:.3g} {prefix}{unit}"
        value /= 1000
    return f"{value:,.3g} T{unit}" if abs(value) < 999.5 else f"{value:,.0f} T{unit}"


def moment(unix_seconds: float | None) -> str:
    """Return day and time in UTC, since the readers are in several time zones."""
    return UNKNOWN if unix_seconds is None else f"{datetime.fromtimestamp(unix_seconds, UTC):%Y-%m-%d %H:%M:%S} UTC"


def day(unix_seconds: float) -> str:
    """Return day and time in UTC in short form, for lists."""
    return f"{datetime.fromtimestamp(unix_seconds, UTC):%d %b %H:%M:%S}"


def clock(unix_seconds: float) -> str:
    """Return the time of the day in UTC."""
    return f"{datetime.fromtimestamp(unix_seconds, UTC):%H:%M:%S.%f}"[:-5]


def state(row: IncidentRank) -> str:
    """Return the state of a rank in a few words."""
    if not row.watched:
        return "not watched"
    if not row.alive:
        return f"gone: {(row.exit_status or 'exit status unknown').removeprefix('signal ')}"
    states = {"T": "stopped", "t": "traced", FROZEN: "frozen", "D": "in uninterruptible sleep"}
    stopped = states.get(row.process_state or "")
    return stopped or ("waits" if row.op else "runs")


def pending(row: FlightRow | None) -> str:
    """Return a rank's flight record in a few words: its oldest operation and how many more, or why it is unknown."""
    if row is None:
        return ""
    if not row.pending:
        last = ", ".join(f"{group} {number}" for group, number in (row.last or {}).items())
        return row.error or (f"nothing pending, done up to {last}" if last else "nothing pending")
    first, num_others = row.pending[0], (row.num_pending or 1) - 1
    age = "" if first.age_seconds is None else f" since {duration(first.age_seconds)}"
    and_more = f", and {num_others} more" if num_others > 0 else ""
    return f"{first.op} #{first.sequence} of {first.group}{age}{and_more}"
