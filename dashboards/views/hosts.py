"""Hosts and their GPUs as tiles, and the choice of a host. Each GPU is a square, and its colour shows the utilization.

If there are too many hosts, Prometheus selects the least busy ones, and the other hosts are summed up in one sentence.
"""

import math
import re
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from html import escape
from typing import NamedTuple

import streamlit as st

from dashboards.colours import BLUE, GREY
from dashboards.formats import share
from dashboards.http_requests import Unreachable
from dashboards.markup import link, unknown_html
from dashboards.queries import Sample, quoted
from dashboards.views import frame, panel
from dashboards.views.context import ViewContext
from zmon.format import UNKNOWN, counted

# PromQL: `$host` is a matcher of the hosts that are drawn, and `$of_hosts` joins with the hosts of the job.
GPUS = "max by (host, gpu) (zmon:gpu_utilization:ratio{$host})"
PROCESSORS = "max by (host) (zmon:host_cpu_busy:ratio{$host})"
RANKS = "sum by (host) (zmon:job_host:ranks{$host})"
NUM_LEAST_BUSY = 28  # they fill one screen
HOST_BUSY = "max by (host) (zmon:host_busy:ratio)$of_hosts"  # its GPUs, or without GPU metrics its CPUs
NUM_HOSTS = f"count({HOST_BUSY})"
LEAST_BUSY = f"bottomk({NUM_LEAST_BUSY}, {HOST_BUSY})"
ALL_HOSTS = f"""
label_replace(quantile(0.5, {HOST_BUSY}), "what", "median", "", "")
or label_replace(max({HOST_BUSY}), "what", "largest", "", "")
""".strip()
NAMES = "group by (host) (zmon:job_host:ranks{job_id=$job})"
WHOLE_JOB = "all hosts of the job"  # the choice of no host
MAX_HOSTS = 128  # more are too many to look at, so only the least busy are drawn
RECENT_SECONDS = 300  # of a job with more hosts, only this time is searched for them: a longer range takes a while


class Square(NamedTuple):
    """One GPU of a host, or its processors together."""

    name: str
    busy_ratio: float  # 0 to 1; NaN: unknown


_UNKNOWN_SQUARE = Square("", math.nan)


@dataclass(frozen=True)
class Fleet:
    """The hosts to draw: all, or the least busy ones with the values of all hosts."""

    matcher: str = ""  # PromQL that selects the least busy hosts by name
    join: str = ""  # PromQL that joins with the hosts of the job
    least_busy: tuple[str, ...] = ()  # the names of the hosts to draw, in this order; empty: all hosts, by name
    summary: str = ""  # a sentence about the hosts that are not drawn

    def query(self, promql: str) -> str:
        """Return the PromQL for these hosts."""
        return promql.replace("$of_hosts", self.join).replace("$host", self.matcher)

    def limited_to(self, names: tuple[str, ...], summary: str = "") -> "Fleet":
        """Return the fleet with only these hosts, in this order."""
        matcher = f"host=~{quoted('|'.join(map(re.escape, names)))}"
        return replace(self, matcher=matcher, least_busy=names, summary=summary)


def show(context: ViewContext) -> bool:
    """Draw a tile for each host with its GPUs, or without GPU metrics its CPUs. Return True if any GPU has metrics."""
    try:
        fleet = _fleet(context)
        join = "" if fleet.least_busy else fleet.join
        queries = [f"{fleet.query(promql)}{join}" for promql in (GPUS, PROCESSORS, RANKS)]
        shown_promql = "\nor ".join([fleet.query(LEAST_BUSY)] if fleet.least_busy else queries)
        panel.heading("How busy are the hosts and their GPUs?", "share", shown_promql, context, context.span)
        gpus, processors, ranks = (context.prometheus.query_at(promql, context.span.end) for promql in queries)
    except Unreachable as error:
        st.html(unknown_html("Hosts", error))
        return False
    squares = _squares(gpus, processors)
    num_ranks = {sample.labels["host"]: int(sample.value) for sample in ranks}
    all_names = sorted({*squares, *num_ranks})
    names = fleet.least_busy or tuple(all_names[:MAX_HOSTS])
    if not names:
        st.html(unknown_html("Hosts", "Prometheus has no zmon:host_cpu_busy:ratio."))
        return False
    tiles = "".join(_tile(host, squares.get(host, []), num_ranks.get(host, 0), context) for host in names)
    st.html(f'<div class="zmon-hosts" style="--tint:{BLUE}" data-testid="zmon-hosts">{tiles}</div>')
    num_hidden = 0 if fleet.least_busy else len(all_names) - len(names)
    more = f" {num_hidden} more hosts." if num_hidden else ""
    st.caption(f"Empty: idle. Full: busy. Grey: unknown.{fleet.summary}{more}")
    return bool(gpus)


def _squares(gpus: Sequence[Sample], processors: Sequence[Sample]) -> dict[str, list[Square]]:
    """Return the GPUs of each host, or its processors if none of its GPUs has metrics."""
    squares: dict[str, list[Square]] = defaultdict(list)
    for sample in gpus:
        squares[sample.labels["host"]].append(Square(f"GPU {sample.labels['gpu']}", sample.value))
    for sample in processors:
        squares.setdefault(sample.labels["host"], [Square("CPUs", sample.value)])
    return squares


def _fleet(context: ViewContext) -> Fleet:
    """Return the hosts to draw. Raises Unreachable."""
    selection = context.selection(context.span)
    end = context.span.end
    if (selection.num_hosts or 0) > MAX_HOSTS:
        selection = replace(selection, range=min(selection.range, RECENT_SECONDS))
    fleet = Fleet(join=f" and on (host) {selection.hosts}")
    num_hosts = sum(int(sample.value) for sample in context.prometheus.query_at(fleet.query(NUM_HOSTS), end))
    if num_hosts <= MAX_HOSTS:
        return fleet
    least = sorted(context.prometheus.query_at(fleet.query(LEAST_BUSY), end), key=lambda sample: sample.value)
    statistics = context.prometheus.query_at(fleet.query(ALL_HOSTS), end)
    values = ", ".join(f"the {sample.labels['what']} value is {share(_known(sample.value))}" for sample in statistics)
    summary = f" The {len(least)} least busy of {num_hosts:,} hosts. Of all hosts, {values or UNKNOWN}."
    return fleet.limited_to(tuple(sample.labels["host"] for sample in least), summary)


def _tile(host: str, squares: Sequence[Square], num_ranks: int, context: ViewContext) -> str:
    """Return HTML with all squares in one element. A thousand elements would take as long as the rest of the page."""
    squares = sorted(squares, key=lambda square: (len(square.name), square.name)) or [_UNKNOWN_SQUARE]
    width = 100 / len(squares)
    stops = [
        f"{_tint(square.busy_ratio)} {index * width:.4g}% {(index + 1) * width:.4g}%"
        for index, square in enumerate(squares)
    ]
    title = ", ".join(f"{square.name} {share(_known(square.busy_ratio))}".strip() for square in squares)
    host_link = link("hardware", context.address.moved(host=host).params(), host)
    style = f"--parts:{len(squares)};--busy:linear-gradient(90deg,{','.join(stops)})"
    ranks = counted(num_ranks, "rank")
    return f'<div>{host_link}<small>{ranks}</small><i title="{escape(title)}" style="{style}"></i></div>'


def _tint(value: float) -> str:
    """Return the colour of a square. A busier GPU is less transparent. Grey is unknown."""
    busy_ratio = _known(value)
    return GREY if busy_ratio is None else f"{BLUE}{round(255 * min(1.0, max(0.0, busy_ratio))):02x}"


def _known(value: float) -> float | None:
    """Return the value; None for NaN, which is unknown."""
    return None if math.isnan(value) else value


def choose(context: ViewContext) -> None:
    """Draw the list of hosts. It always contains the host of the URL, so that it can be deselected."""
    try:
        samples = context.prometheus.query_at(NAMES.replace("$job", quoted(context.job_id or "")), context.span.end)
    except Unreachable:
        samples = []
    names = {sample.labels["host"] for sample in samples} | {host for host in [context.address.host] if host}
    frame.select(
        "Host",
        [WHOLE_JOB, *sorted(names)],
        context.address.host or WHOLE_JOB,
        lambda host: context.address.moved(host=None if host == WHOLE_JOB else host),
    )
