"""The terminal output of `zmon bench-comm`: a row per message size, then the fitted bandwidth and latency."""

from __future__ import annotations

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from zmon.format import UNKNOWN
from zmon.offline.comm_bench.curve import HOST, NET, Measured, links
from zmon.scaling.predict import Links


def report(measured: Measured) -> RenderableType:
    """Return the output for one benchmark."""
    ops = list(dict.fromkeys(timed.op for timed in measured.timed))
    parts: list[RenderableType] = []
    for group in (HOST, NET):
        rows = {t.num_bytes: t.ranks for t in measured.timed if t.group == group}
        if not rows:
            continue
        by_size = {(t.op, t.num_bytes): t for t in measured.timed if t.group == group}
        table = Table(title=f"{group}, {max(rows.values())} ranks", title_justify="left", title_style="bold", box=None)
        for head in ("size", *(head for op in ops for head in (f"{op} time", "bus bandwidth"))):
            table.add_column(head, justify="right", no_wrap=True)
        for num_bytes in sorted(rows):
            cells = [_size(num_bytes)]
            for op in ops:
                timed = by_size.get((op, num_bytes))
                cells += [UNKNOWN] * 2 if timed is None else [_time(timed.seconds), _rate(timed.bus_bytes_per_second)]
            table.add_row(*cells)
        parts.append(table)
    parts += [Text(f"{op}, fitted: {_fitted(link)}") for op, link in links(measured).items()]
    note = "Size: bytes that each rank hands in. Bus bandwidth is defined as in nccl-tests."
    return Group(*parts, Text(f"{measured.backend}, {measured.ranks} ranks. {note}", style="dim"))


def _fitted(links: Links) -> str:
    by_group = ((links.host, HOST), (links.net, NET))
    return "; ".join(
        f"{group} bus bandwidth {_rate(link.bytes_per_second)}, latency {_time(link.latency_seconds)}"
        for link, group in by_group
        if link
    )


def _size(num_bytes: int) -> str:
    """Format bytes: 1024 → 1 KiB."""
    for unit, name in ((1 << 20, "MiB"), (1 << 10, "KiB")):
        if num_bytes >= unit:
            return f"{num_bytes / unit:,.4g} {name}"
    return f"{num_bytes} B"


def _time(seconds: float) -> str:
    return f"{1e6 * seconds:,.0f} µs" if seconds < 0.01 else f"{1e3 * seconds:,.1f} ms"


def _rate(bytes_per_second: float) -> str:
    return f"{bytes_per_second / 1e9:,.2f} GB/s"
