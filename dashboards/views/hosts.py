"""Hosts and their GPUs as tiles. Each GPU is a square, and its colour shows the utilization."""

from collections import defaultdict
from html import escape

import streamlit as st

from dashboards.asking import Unreachable
from dashboards.colours import BLUE, GREY
from dashboards.views import panel
from dashboards.views.context import ViewContext
from dashboards.words import link, share
from zmon.format import UNKNOWN

GPUS = "max by (host, gpu) (zmon:gpu_utilization:ratio)"
PROCESSORS = "max by (host) (zmon:host_cpu_busy:ratio)"
RANKS = "sum by (host) (zmon:job_host:ranks)"
MAX_HOSTS = 512


def show(context: ViewContext, *, all_jobs: bool = False) -> bool:
    """Draw a tile for each host with its GPUs, or without GPU metrics its CPUs. Return True if any GPU has metrics."""
    hosts = "" if all_jobs else f" and on (host) {context.selection(context.span).hosts}"
    queries = [f"{promql}{hosts}" for promql in (GPUS, PROCESSORS, RANKS)]
    panel.heading("How busy are the hosts and their GPUs?", "share", "\nor ".join(queries), context, context.span)
    try:
        gpus, processors, ranks = (context.prometheus.query_at(promql, context.span.end) for promql in queries)
    except Unreachable as error:
        st.html(f'<p class="zmon-unknown">Hosts: {UNKNOWN}, {escape(str(error))}</p>')
        return False
    parts: dict[str, list[tuple[str, float]]] = defaultdict(list)
    for sample in gpus:
        parts[sample.labels["host"]].append((f"GPU {sample.labels['gpu']}", sample.value))
    with_gpus = set(parts)
    for sample in processors:
        if sample.labels["host"] not in with_gpus:
            parts[sample.labels["host"]].append(("CPUs", sample.value))
    num_ranks = {sample.labels["host"]: int(sample.value) for sample in ranks}
    names = sorted({*parts, *num_ranks})
    if not names:
        st.html(f'<p class="zmon-unknown">Hosts: {UNKNOWN}, Prometheus has no zmon:host_cpu_busy:ratio.</p>')
        return False
    tiles = "".join(_tile(host, parts[host], num_ranks.get(host, 0), context) for host in names[:MAX_HOSTS])
    st.html(f'<div class="zmon-hosts" style="--tint:{BLUE}" data-testid="zmon-hosts">{tiles}</div>')
    st.caption("Empty: idle. Full: busy. Grey: unknown." + _hidden_hosts(len(names) - MAX_HOSTS))
    return bool(with_gpus)


def _tile(host: str, parts: list[tuple[str, float]], num_ranks: int, context: ViewContext) -> str:
    """Return HTML with all squares in one element. A thousand elements would take as long as the rest of the page."""
    squares = sorted(parts, key=_by_number) or [("", float("nan"))]
    width = 100 / len(squares)
    stops = [
        f"{_tint(value)} {index * width:.4g}% {(index + 1) * width:.4g}%" for index, (_, value) in enumerate(squares)
    ]
    title = ", ".join(f"{name} {share(_number(value))}".strip() for name, value in squares)
    lead = link("hardware", context.address.moved(host=host).params(), host)
    style = f"--parts:{len(squares)};--busy:linear-gradient(90deg,{','.join(stops)})"
    return f'<div>{lead}<small>{num_ranks} ranks</small><i title="{escape(title)}" style="{style}"></i></div>'


def _tint(value: float) -> str:
    """Return the colour of a square. A busier GPU is less transparent. Grey is unknown."""
    busy = _number(value)
    return GREY if busy is None else f"{BLUE}{round(255 * min(1.0, max(0.0, busy))):02x}"


def _number(value: float) -> float | None:
    return value if value == value else None


def _by_number(part: tuple[str, float]) -> tuple[int, str]:
    return len(part[0]), part[0]


def _hidden_hosts(number: int) -> str:
    return f" {number} more hosts." if number > 0 else ""
