"""Writes the answers of `zmon mcp` as text of limited length, with text from jobs between two marks. Pure.

A job chooses its name, labels, exceptions, functions and output. It may write there what looks like an instruction, or
like the end of the marked text. So each text from a job is a JSON string of printable ASCII without `<`, `>` and
backticks; other characters are `\\u` escapes. No text can be a mark, end a line, reverse its direction or be invisible.
"""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec
from msgspec import UNSET

BEGIN, END = "<data-from-jobs>", "</data-from-jobs>"
MAX_CHARACTERS = 8000  # of an answer, all of which an assistant reads
_RESERVED = 300  # characters for the marks and the last line
_MAX_TEXT = 1000  # characters of one line of a text
_MAX_IN_A_ROW = 64  # numbers or words in one line
_ESCAPED = re.compile("[<>`\x7f]")  # json itself escapes what is not ASCII, and all control characters but DEL


def fenced(lines: Iterable[str]) -> list[str]:
    """Return the lines between two marks."""
    return [BEGIN, *lines, END]


def quoted(text: str) -> str:
    """Return a text as JSON that has no mark in it."""
    if len(text) > _MAX_TEXT:
        rest = f"{len(text) - _MAX_TEXT:,} more characters are left out; zmon's commands show them with --json"
        text = f"{text[:_MAX_TEXT]} ({rest})"
    return _ESCAPED.sub(lambda letter: f"\\u{ord(letter[0]):04x}", json.dumps(text))


def fields(value: Any, names: Sequence[str] = ()) -> dict[str, Any]:
    """Return the fields of a struct or dataclass by name: these, or all if none is given. UNSET fields are left out."""
    if not names:
        is_dataclass = dataclasses.is_dataclass(value)
        names = [field.name for field in dataclasses.fields(value)] if is_dataclass else value.__struct_fields__
    return {name: getattr(value, name) for name in names if getattr(value, name) is not UNSET}


def row(values: Mapping[str, Any]) -> str:
    """Return one line with the names and the values of fields. The names are zmon's own, so they need no quotes."""
    return ", ".join(f"{name}: {_flat(value)}" for name, value in values.items())


def lines(value: Any, place: str) -> Iterator[str]:
    """Yield a line for each number or text in a value, with its place, such as `ranks[2].host: "node-a"`."""
    if dataclasses.is_dataclass(value) or isinstance(value, msgspec.Struct):
        for name, item in fields(value).items():
            yield from lines(item, f"{place}.{name}")
    elif isinstance(value, Mapping) and value:
        for key, item in value.items():
            yield from lines(item, f"{place}[{quoted(str(key))}]")
    elif isinstance(value, list | tuple) and not all(map(_is_flat, value)):
        for index, item in enumerate(value):
            yield from lines(item, f"{place}[{index}]")
    elif isinstance(value, list | tuple) and len(value) > _MAX_IN_A_ROW:
        for start in range(0, len(value), _MAX_IN_A_ROW):
            yield f"{place}[{start}…]: {_flat(value[start : start + _MAX_IN_A_ROW])}"
    elif isinstance(value, str) and "\n" in value:
        for number, line in enumerate(value.splitlines(), 1):
            yield f"{place}, line {number}: {quoted(line)}"
    else:
        yield f"{place}: {_flat(value)}"


def _is_flat(value: object) -> bool:
    """Return True for a value that has no parts."""
    return value is None or isinstance(value, str | int | float)


def _flat(value: Any) -> str:
    """Return a number, a text, or a list of both, as JSON. A long list is cut."""
    if isinstance(value, list | tuple):
        more = f", and {len(value) - _MAX_IN_A_ROW:,} more" if len(value) > _MAX_IN_A_ROW else ""
        return f"[{', '.join(map(_flat, value[:_MAX_IN_A_ROW]))}{more}]"
    if isinstance(value, str):
        return quoted(value)
    if isinstance(value, float):
        return f"{value:.13g}"  # a time to the millisecond
    return json.dumps(value)


def page(
    head: Sequence[str], body: Sequence[str], offset: int, total: int | None = None, *, is_data: bool = True
) -> str:
    """Return an answer: `head`, then as many lines of `body` as there is room for, and a line about those left out.

    `offset`: the number of the first line of the answer. `total`: the number of all lines; None: `body` has all lines.
    If `total` is given, `body` begins with line `offset`. `is_data`: the body has text from jobs; the head never has.
    """
    offset = max(0, offset)
    if total is None:
        body, total = body[offset:], len(body)
    room = MAX_CHARACTERS - _RESERVED - sum(len(line) + 1 for line in head)
    shown: list[str] = []
    for line in body:
        if len(line) > room and not shown:
            line = f"(a line of {len(line):,} characters is left out)"
        room -= len(line) + 1
        if room < 0:
            break
        shown.append(line)
    end = offset + len(shown)
    footer = []
    if end < total:
        footer = [f"Left out: {total - end:,} of {total:,} lines. For the next ones, ask again with offset={end}."]
    elif offset:
        footer = [f"This is the end of {total:,} lines; {min(offset, total):,} were before."]
    if body and is_data:
        shown = fenced(shown)
    return "\n".join([*head, *shown, *footer])
