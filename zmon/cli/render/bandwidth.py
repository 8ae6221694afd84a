"""What a person reads of measured exchanges: a row a size, then what a step is predicted with."""

from __future__ import annotations

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from zmon.format import UNKNOWN
from zmon.offline.comm_bench.curve import HOST, NET, Measured, links
from zmon.scaling.predict import Links


def report(measured: Measured) -> RenderableType:
    """All of it."""
    ops = list(dict.fromkeys(timed.op for timed in measured.timed))
    parts: list[RenderableType] = []
    for group in (HOST, NET):
        rows = {t.num_bytes: t.ranks for t in measured.timed if t.group == group}
        if not rows:
            continue
        by = {(t.op, t.num_bytes): t for t in measured.timed if t.group == group}
        table = Table(title=f"{group}, {max(rows.values())} ranks", title_justify="left", title_style="bold", box=None)
        for head in ("handed in", *(part for op in ops for part in (op, "bus"))):
            table.add_column(head, justify="right", no_wrap=True)
        for num_bytes in sorted(rows):
            cells = [_size(num_bytes)]
            for op in ops:
                timed = by.get((op, num_bytes))
                cells += [UNKNOWN] * 2 if timed is None else [_time(timed.seconds), _rate(timed.bus_bytes_per_second)]
            table.add_row(*cells)
        parts.append(table)
    parts += [Text(f"{op}: {_told(link)}") for op, link in links(measured).items()]
    about = "bus: bytes that passed each rank's links, a second, as nccl-tests has it"
    return Group(*parts, Text(f"{measured.backend}, {measured.ranks} ranks. {about}", style="dim"))


def _told(links: Links) -> str:
    known = ((links.host, HOST), (links.net, NET))
    return ", ".join(
        f"{_rate(link.bytes_per_second)} {where} and {_time(link.latency_seconds)}" for link, where in known if link
    )


def _size(num_bytes: int) -> str:
    """1024 → 1 KiB."""
    for unit, name in ((1 << 20, "MiB"), (1 << 10, "KiB")):
        if num_bytes >= unit:
            return f"{num_bytes / unit:,.4g} {name}"
    return f"{num_bytes} B"


def _time(seconds: float) -> str:
    return f"{1e6 * seconds:,.0f} µs" if seconds < 0.01 else f"{1e3 * seconds:,.1f} ms"


def _rate(bytes_per_second: float) -> str:
    return f"{bytes_per_second / 1e9:,.2f} GB/s"
