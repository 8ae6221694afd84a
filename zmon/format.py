"""Format durations, numbers and lists for people, and make text from outside plain. Pure.

Plain text does not control a terminal, add lines to a log, or turn the direction of a line around. Names, labels,
messages, paths and standard error come from jobs, other hosts and the kernel. They may have escape sequences, line
breaks, marks of direction, or bytes that are not UTF-8 (Python reads those as lone surrogates, which no encoder
accepts). Text is made plain where it enters: by the reader of boxes, by errors, by the agent's evidence, and in the
JSON that a daemon receives. Standard library only, because ranks import this module.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from math import isfinite

UNKNOWN = "unknown"
NONE = "–"  # there is no such value: the job has ended, for example
_FRESH_SECONDS = 3.0  # the hub rewrites a summary at each pass, and people ask it every two seconds

# DEL, control characters (C1), marks of direction, line and paragraph separators, the byte order mark, surrogates.
_CONTROLS = "\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff\ud800-\udfff"
_NOT_IN_A_LINE = re.compile(f"[\x00-\x1f{_CONTROLS}]")
_NOT_IN_LINES = re.compile(f"[\x00-\x08\x0b-\x1f{_CONTROLS}]")  # all except tab and line feed
_COLOUR = re.compile("\x1b\\[[0-9;]*m")  # the escape sequence of a terminal
_REPLACEMENT = "\ufffd"
# Keys of JSON whose texts have several lines: messages of exceptions, stacks, the end of standard error.
_LINED_KEYS = "message|root|stack|stderr_tail|text"
# Escapes in JSON: a pair of surrogates, which is one character; the code of a character; a single letter.
_ESCAPE = r"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|\\u[0-9a-fA-F]{4}|\\."
_UNPLAIN = re.compile(rf"{_ESCAPE}|[{_CONTROLS}]", re.DOTALL)
_LINED_OR_UNPLAIN = re.compile(rf'"(?:{_LINED_KEYS})"\s*:\s*"(?:[^"\\]|\\.)*"|{_ESCAPE}|[{_CONTROLS}]', re.DOTALL)
_SHORT_ESCAPES = {"\\n": "\n", "\\t": "\t", "\\r": "\r", "\\b": "\b", "\\f": "\f"}
_ESCAPED_LETTER, _SURROGATE_PAIR = 6, 12  # lengths of `\\u0007`, and of the two such escapes of a rarer character


def duration(seconds: float | None) -> str:
    """Format seconds: 0.0832 → 83.2 ms, 4.06 → 4.1 s, 192 → 3 min 12 s, 7260 → 2 h 1 min, 200000 → 2 d 7 h."""
    if seconds is None or not isfinite(seconds):
        return UNKNOWN
    seconds = max(0.0, seconds)  # the clock of another host may be slightly ahead
    if seconds < 0.9995:
        return f"{round(seconds * 1000, 4):.3g} ms"
    if seconds < 9.95:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    for limit, size, unit, smaller_unit in ((60, 1, "s", ""), (3600, 60, "min", "s"), (86400, 3600, "h", "min")):
        if whole < limit:
            remainder = whole % size * 60 // size  # always 0 for seconds
            return f"{whole // size} {unit}" + (f" {remainder} {smaller_unit}" if remainder else "")
    return f"{whole // 86400} d {whole % 86400 // 3600} h"


def size(num_bytes: float) -> str:
    """Format bytes: 1234 → 1.23 kB, 5e9 → 5 GB, 2.05e12 → 2.05 TB."""
    for unit, name in ((1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "kB")):
        if num_bytes >= 0.9995 * unit:
            return f"{num_bytes / unit:,.3g} {name}"
    return f"{num_bytes:.0f} B"


def clock(unix_seconds: float) -> str:
    """Format a time of day in UTC, because people on call are in several time zones: 12:03:05 UTC."""
    return f"{datetime.fromtimestamp(unix_seconds, UTC):%H:%M:%S} UTC"


def dated(text: str, as_of: float | None, now: float) -> str:
    """Return the text, with the time of its figures if it was written more than a few seconds before `now`."""
    return text if as_of is None or now - as_of < _FRESH_SECONDS else f"{text} (as of {clock(as_of)})"


def sentence(text: str) -> str:
    """Return the text with a full stop, unless it ends as a sentence or with a command."""
    return text if text.endswith((".", "?", "`")) else f"{text}."


def number(value: float | None) -> str:
    """Format a reported figure; None is NaN, because JSON carries NaN as null."""
    return "NaN" if value is None else f"{value:.4g}"


def listed(names: Sequence[str], shown: int = 8, number: int | None = None) -> str:
    """Join the first names with commas, and append the number of the others.

    `number` is the number of all names, if `names` has only the first ones.
    """
    left_out = (len(names) if number is None else number) - shown
    more = f" and {left_out} more" if left_out > 0 else ""
    return ", ".join(names[:shown]) + more


def counted(number: int, what: str) -> str:
    """Format a number with its noun: 1 agent, 2,000 agents."""
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def plain(text: str) -> str:
    """Return the text in one line: line breaks and tabs become spaces, other controls their code (`\\x1b`)."""
    return text if text.isprintable() and text.isascii() else _NOT_IN_A_LINE.sub(_replaced_in_a_line, text)


def plain_lines(text: str) -> str:
    """Return the text with its lines and tabs; a carriage return begins a line, and colours are left out."""
    if "\x1b" in text:
        text = _COLOUR.sub("", text)
    return _NOT_IN_LINES.sub(_replaced_in_lines, text.replace("\r\n", "\n"))


def plain_json(body: bytes, lines: bool = False) -> bytes:
    """Return the JSON with plain texts, and with bytes that are not UTF-8 replaced. Its syntax is not checked.

    Texts keep their lines under the keys that have lines, or, with `lines`, under every key. A body without a backslash
    and without letters beyond ASCII, as a healthy agent's, is returned at once: it cannot have a control character.
    """
    if b"\\" not in body and body.isascii() and b"\x7f" not in body:
        return body
    text = body.decode("utf-8", "replace")
    text = _UNPLAIN.sub(_lined_token, text) if lines else _LINED_OR_UNPLAIN.sub(_token, text)
    return text.encode("utf-8", "replace")


def _replaced_in_a_line(match: re.Match[str]) -> str:
    letter = match[0]
    return " " if letter in "\t\n\r" else _code(letter)


def _replaced_in_lines(match: re.Match[str]) -> str:
    return "\n" if match[0] == "\r" else _code(match[0])


def _code(letter: str) -> str:
    number = ord(letter)
    if 0xD800 <= number <= 0xDFFF:  # a lone surrogate
        return _REPLACEMENT
    return f"\\x{number:02x}" if number < 0x100 else f"\\u{number:04x}"


def _token(match: re.Match[str]) -> str:
    """Return one part of JSON in plain form: a letter, escaped or not, or a key with its text in lines."""
    token = match[0]
    if token[0] != '"':
        return _escaped(token, plain)
    return _UNPLAIN.sub(_lined_token, token)


def _lined_token(match: re.Match[str]) -> str:
    return _escaped(match[0], plain_lines)


def _escaped(token: str, make_plain: Callable[[str], str]) -> str:
    """Return a letter of JSON, escaped or not, in plain form and escaped where JSON needs it."""
    if len(token) == _SURROGATE_PAIR:
        return token
    if len(token) == 1:
        letter = token
    elif len(token) == _ESCAPED_LETTER:
        letter = chr(int(token[2:], 16))
    else:
        letter = _SHORT_ESCAPES.get(token, "")
    if not letter:
        return token  # an escaped quote, slash or backslash
    result = make_plain(letter)
    if result == letter:
        return token
    return result.replace("\\", "\\\\").replace("\n", "\\n")
