"""The length of an answer: it ends with a whole line, and says what it leaves out and how to ask for it. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from zmon.cli.mcp.fence import fenced

MAX_CHARACTERS = 8000  # an assistant reads all of an answer, and has little room
_RESERVED = 300  # characters for the marks and the last line


def page(
    head: Sequence[str], body: Sequence[str], offset: int, total: int | None = None, *, is_data: bool = True
) -> str:
    """Return an answer: `head`, which is zmon's, then as many lines of `body` as there is room for.

    `offset`: the number of lines before the first one. `total`: of all lines, if `body` begins at `offset`; None: it
    begins with the first one. `is_data`: the body has text from jobs.
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
    last = []
    if end < total:
        last = [f"Left out: {total - end:,} of {total:,} lines. For the next ones, ask again with offset={end}."]
    elif offset:
        last = [f"This is the end of {total:,} lines; {min(offset, total):,} were before."]
    return "\n".join([*head, *((fenced(shown) if is_data else shown) if body else ()), *last])
