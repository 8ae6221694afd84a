"""Hosts and their GPUs at one look: a square each, the fuller the busier."""

from collections import defaultdict
from html import escape

import streamlit as st

from dashboards.asking import Unreachable
from dashboards.colours import BLUE, GREY
from dashboards.views import panel
from dashboards.views.seen import Seen
from dashboards.words import UNKNOWN, link, share

GPUS = "max by (host, gpu) (zmon:gpu_utilization:ratio)"
PROCESSORS = "max by (host) (zmon:host_cpu_busy:ratio)"
RANKS = "sum by (host) (zmon:job_host:ranks)"
MOST_HOSTS = 512


def show(seen: Seen, *, of_all: bool = False) -> bool:
    """A tile a host; its squares are its GPUs, or where none is read its processors together. True: some GPU is."""
    hosts = "" if of_all else f" and on (host) {seen.asked(seen.span).hosts}"
    asked = [f"{promql}{hosts}" for promql in (GPUS, PROCESSORS, RANKS)]
    panel.heading("How busy are the hosts and their GPUs?", "share", "\nor ".join(asked), seen, seen.span)
    try:
        gpus, processors, ranks = (seen.prometheus.then(promql, seen.span.end) for promql in asked)
    except Unreachable as error:
        st.html(f'<p class="zmon-unknown">Hosts: {UNKNOWN}, {escape(str(error))}</p>')
        return False
    of: dict[str, list[tuple[str, float]]] = defaultdict(list)
    for sample in gpus:
        of[sample.labels["host"]].append((f"GPU {sample.labels['gpu']}", sample.value))
    with_gpus = set(of)
    for sample in processors:
        if sample.labels["host"] not in with_gpus:
            of[sample.labels["host"]].append(("processors", sample.value))
    training = {sample.labels["host"]: int(sample.value) for sample in ranks}
    known = sorted({*of, *training})
    if not known:
        st.html(f'<p class="zmon-unknown">Hosts: {UNKNOWN}, Prometheus has no zmon:host_cpu_busy:ratio.</p>')
        return False
    tiles = "".join(_tile(host, of[host], training.get(host, 0), seen) for host in known[:MOST_HOSTS])
    st.html(f'<div class="zmon-hosts" style="--tint:{BLUE}" data-testid="zmon-hosts">{tiles}</div>')
    st.caption("Empty: idle. Full: busy. Grey: unknown." + _more(len(known) - MOST_HOSTS))
    return bool(with_gpus)


def _tile(host: str, parts: list[tuple[str, float]], num_ranks: int, seen: Seen) -> str:
    """Its squares are one element: a browser takes as long for a thousand of them as for all the rest of the page."""
    known = sorted(parts, key=_by_number) or [("", float("nan"))]
    width = 100 / len(known)
    stops = [
        f"{_tint(value)} {place * width:.4g}% {(place + 1) * width:.4g}%" for place, (_, value) in enumerate(known)
    ]
    said = ", ".join(f"{name} {share(_number(value))}".strip() for name, value in known)
    lead = link("hardware", seen.address.moved(host=host).params(), host)
    look = f"--parts:{len(known)};--busy:linear-gradient(90deg,{','.join(stops)})"
    return f'<div>{lead}<small>{num_ranks} ranks</small><i title="{escape(said)}" style="{look}"></i></div>'


def _tint(value: float) -> str:
    """The fuller the busier, on light and on dark; grey is unknown."""
    known = _number(value)
    return GREY if known is None else f"{BLUE}{round(255 * min(1.0, max(0.0, known))):02x}"


def _number(value: float) -> float | None:
    return value if value == value else None


def _by_number(part: tuple[str, float]) -> tuple[int, str]:
    return len(part[0]), part[0]


def _more(number: int) -> str:
    return f" {number} more hosts." if number > 0 else ""
