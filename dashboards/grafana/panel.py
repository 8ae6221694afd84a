"""Grafana's JSON of a panel: its question, PromQL and colours on zmon's own page, and the nearest type of chart."""

import re
from dataclasses import dataclass
from typing import NotRequired, TypedDict
from zlib import crc32

from dashboards.address import HEAT_MAP_POINTS
from dashboards.colours import CATEGORIES, CIVIDIS, GREY, OPS
from dashboards.colours import RANKS as RANK_COLOURS
from dashboards.intervals import Intervals
from dashboards.panels import Panel, Selection
from dashboards.panels.panel import MAX_ROWS, NUM_OUTLIERS, is_of_hub, series_names
from dashboards.queries import MAX_SERIES
from dashboards.rules.render import recording_seconds
from dashboards.views.time_bar import TIME_PER_STEP
from zmon.format import UNKNOWN
from zmon.schema.scraping import duration_text

DATA_SOURCE = {"type": "prometheus", "uid": "${datasource}"}
JOB = '"$job_id"'
HOST = 'host=~"$host"'
OF_HOST = f", {HOST}"
RANKS = f"zmon:job_host:ranks{{job_id={JOB}}}"
RANKS_OF_HOST = f"zmon:job_host:ranks{{job_id={JOB}{OF_HOST}}}"
UNITS = {  # with SI prefixes for bytes, as on the pages
    "seconds": "s",
    "bytes": "decbytes",
    "bytes/s": "Bps",
    "samples/s": "suffix:samples/s",
    "share": "percentunit",
    "per second": "suffix:/s",
    "°C": "celsius",
    "W": "watt",
    "Hz": "hertz",
    "": "none",
}
_LEGEND = {"displayMode": "list", "placement": "bottom", "showLegend": True, "calcs": []}
MAX_LABELS = 32  # rows of a panel; the labels of more rows would overlap
STEP_PANEL = Panel(  # on the page this is one bar from the ideal step to the real one
    key="step",
    question="What does the mean step spend its time on?",
    unit="seconds",
    legend="{cause}",
    promql=f"sort_desc(\n{TIME_PER_STEP.replace('$range', '$window')}\n)",
    why_absent="no step ended in the time range",
)


class _FieldConfig(TypedDict):
    """The display of values; the keys are Grafana's."""

    defaults: dict[str, object]
    overrides: list[dict[str, object]]


class _ChartFields(TypedDict):
    """The part of a panel that depends on its shape; the keys are Grafana's."""

    type: str
    maxDataPoints: NotRequired[int]
    fieldConfig: _FieldConfig
    options: dict[str, object]


@dataclass(frozen=True)
class _GrafanaSelection(Selection):
    """A selection whose values are variables of Grafana."""

    rate_window: str = "$__rate_interval"

    def variables(self) -> dict[str, str]:
        """Return the values of the variables. Hosts are a pattern, since several or all can be selected."""
        return {
            "job": JOB,
            "rank": '"$rank"',
            "hosts": f"group by (host) (last_over_time({RANKS_OF_HOST}[$__range] @ end()))",
            "host": HOST,
            "of_host": OF_HOST,
            "range": "$__range",
            "window": self.rate_window,
            "seconds": "($__rate_interval_ms / 1000)",
        }


_ALL_SERIES = _GrafanaSelection()  # so few ranks and hosts that a panel shows each of them
_SUMMARY = _GrafanaSelection(num_ranks=MAX_ROWS + 1, num_hosts=MAX_SERIES + 1)  # so many that it shows a summary


def build(panel: Panel, intervals: Intervals) -> dict[str, object]:
    """Return Grafana's JSON of the panel, without its position."""
    return _panel(panel, _targets(panel, intervals), _CHART_FIELDS[panel.shape](panel))


def build_step() -> dict[str, object]:
    """Return the panel with the time categories of a step, over the whole time range."""
    promql = STEP_PANEL.query(_GrafanaSelection(rate_window="$__range"))
    target = _target(STEP_PANEL, "A", promql, STEP_PANEL.legend)
    return _panel(STEP_PANEL, [target | {"range": False, "instant": True}], _bars())


def uses_hosts(panel: Panel) -> bool:
    """Return True if the panel shows only the selected hosts."""
    return re.search(r"\$(hosts|of_host)\b", panel.promql) is not None


def _panel(panel: Panel, targets: list[dict[str, object]], chart: _ChartFields) -> dict[str, object]:
    defaults = {**chart["fieldConfig"]["defaults"], "unit": UNITS[panel.unit], "noValue": UNKNOWN}
    return {
        # The ID is derived from the key, so that links stay valid when the order of panels changes.
        "id": crc32(panel.key.encode()) % 2**31,
        "title": panel.question,
        "description": _description(panel, has_summary=len(targets) > 1),
        "datasource": DATA_SOURCE,
        "targets": targets,
        **chart,
        "fieldConfig": {**chart["fieldConfig"], "defaults": defaults},
    }


def _description(panel: Panel, *, has_summary: bool) -> str:
    """Return the names of the series, the reason why they may be unknown, and when the panel shows a summary."""
    names = ", ".join(f"`{name}`" for name in panel.series())
    reason = f": {panel.why_absent}" if panel.why_absent else ""
    text = f"Drawn from {names}; {UNKNOWN} if there is no series{reason}."
    if not has_summary:
        return text
    summary = "a summary of the job"
    if panel.shape == "rows":
        hosts = f"for each of the {NUM_OUTLIERS} that stand out, and for all of them together"
        summary = f"a row for each host; if there are more than {MAX_ROWS}, {hosts}"
    elif "{spread}" in panel.summary_legend:
        summary = "the largest, median and smallest value of the job"
    return f"{text} With more than {_max_series(panel)} {panel.grows_with}: {summary}."


def _targets(panel: Panel, intervals: Intervals) -> list[dict[str, object]]:
    """Return a query for all series, for the summary, and for the hosts that stand out. Only one of them has series."""

    def over_time(ref_id: str, promql: str, legend: str) -> dict[str, object]:
        return _target(panel, ref_id, promql, legend) | {"interval": _min_step(promql, intervals)}

    all_series = panel.query(_ALL_SERIES)
    if not panel.grows_with:
        return [over_time("A", all_series, panel.legend)]
    aggregation = "count" if panel.grows_with == "hosts" else "sum"
    number = f"{aggregation}({RANKS_OF_HOST if uses_hosts(panel) else RANKS})"
    limit = _max_series(panel)
    first = over_time("A", f"(\n{all_series}\n)\nand on () ({number} <= {limit})", panel.legend)
    over_limit = f"{number} > {limit}"
    summary = panel.query(_SUMMARY)
    legend = panel.summary_legend
    if not panel.outlier_promql:
        return [first, over_time("B", f"(\n{summary}\n)\nand on () ({over_limit})", legend)]
    num_hosts = f"count({RANKS_OF_HOST})"
    return [
        first,
        over_time("B", f"(\n{summary}\n)\nand on () ({over_limit} and {num_hosts} <= {MAX_ROWS})", legend),
        over_time("C", f"(\n{_outliers(panel)}\n)\nand on () ({num_hosts} > {MAX_ROWS})", legend),
    ]


def _outliers(panel: Panel) -> str:
    """Return the query for the hosts that stand out, and for all hosts together. On the page these are two queries."""
    variables = _SUMMARY.variables()
    outliers, all_hosts = (panel.fill(variables, text) for text in (panel.outlier_promql, panel.all_hosts_promql))
    return f"(\n{panel.query(_SUMMARY)}\n)\nand on (host) {outliers}\nor {all_hosts}"


def _min_step(promql: str, intervals: Intervals) -> str:
    """Return the interval at which the slowest series of the query gets samples.

    Grafana's $__rate_interval is at least four times this. Without it, Grafana takes the scrape interval of the data
    source, by default 15 s. One interval fits neither two daemons nor recording rules.
    """
    recorded = recording_seconds(intervals)
    names = series_names(promql)
    scraped = {name: intervals.hub_seconds if is_of_hub(name) else intervals.agents_seconds for name in names}
    return duration_text(max((scraped | recorded)[name] for name in names))


def _max_series(panel: Panel) -> int:
    return MAX_LABELS if panel.shape == "rows" else panel.max_series


def _target(panel: Panel, ref_id: str, promql: str, legend: str) -> dict[str, object]:
    return {
        "refId": ref_id,
        "datasource": DATA_SOURCE,
        "expr": promql,
        "legendFormat": re.sub(r"\{(\w+)\}", r"{{\1}}", legend),
        "editorMode": "code",
        "range": True,
        "instant": False,
    }


def _line_style(panel: Panel) -> dict[str, object]:
    style: dict[str, object] = {
        "drawStyle": "line",
        "lineWidth": 2,
        "fillOpacity": 0,
        "showPoints": "auto",
        "spanNulls": False,
    }
    return style | {"axisSoftMin": 0} if panel.from_zero else style


def _lines(panel: Panel) -> _ChartFields:
    defaults: dict[str, object] = {"color": {"mode": "palette-classic"}, "custom": _line_style(panel)}
    return {
        "type": "timeseries",
        "fieldConfig": {"defaults": defaults, "overrides": _first_word_overrides(panel)},
        "options": {"legend": _LEGEND, "tooltip": {"mode": "multi", "sort": "desc"}},
    }


def _areas(panel: Panel) -> _ChartFields:
    stacked = {"lineWidth": 0, "fillOpacity": 85, "showPoints": "never", "stacking": {"mode": "normal", "group": "A"}}
    return _lines(panel) | {"fieldConfig": _by_category(_line_style(panel) | stacked)}


def _rows(panel: Panel) -> _ChartFields:
    """Return a heat map whose colours are threshold steps.

    Grafana's built-in cividis swaps dark and light in one theme, but the questions refer to light rows. Steps have a
    legend, too.
    """
    colours = CIVIDIS[::-1] if panel.light_values == "low" else CIVIDIS
    # None: the first colour has no lower limit
    steps = [{"color": colour, "value": index / len(colours) or None} for index, colour in enumerate(colours)]
    defaults = {
        "color": {"mode": "thresholds"},
        "thresholds": {"mode": "absolute", "steps": steps},
        "min": 0,
        "max": 1,
        "custom": {"fillOpacity": 100, "lineWidth": 0},
    }
    return {
        "type": "status-history",
        "maxDataPoints": HEAT_MAP_POINTS,  # if there were more than half its width in pixels, it would draw nothing
        "fieldConfig": {"defaults": defaults, "overrides": []},
        "options": {
            "showValue": "never",
            "rowHeight": 0.95,
            "colWidth": 1,
            "legend": _LEGEND,
            "tooltip": {"mode": "single", "sort": "none"},
        },
    }


def _bars() -> _ChartFields:
    return {
        "type": "bargauge",
        "fieldConfig": _by_category({}, min=0),
        "options": {
            "displayMode": "basic",
            "orientation": "horizontal",
            "namePlacement": "left",
            "valueMode": "text",
            "showUnfilled": False,
            "sizing": "auto",
            "minVizWidth": 8,
            "minVizHeight": 16,
            "maxVizHeight": 300,
            "reduceOptions": {"calcs": ["lastNotNull"], "fields": "", "values": False},
        },
    }


_CHART_FIELDS = {"lines": _lines, "areas": _areas, "rows": _rows}


def _by_category(custom: dict[str, object], **defaults: object) -> _FieldConfig:
    """Return the colours of the page. `wait: all_to_all` has the colour of its op; unknown names are grey."""
    return {
        "defaults": {"color": {"mode": "fixed", "fixedColor": GREY}, "custom": custom, **defaults},
        "overrides": [_override(f"^(wait: )?{name}$", colour) for name, colour in CATEGORIES.items()],
    }


def _first_word_overrides(panel: Panel) -> list[dict[str, object]]:
    """Return the colours of ops and ranks if they are the first word of a line's name."""
    if panel.legend.startswith("{op}"):
        return [_override(f"^{op}(:|$)", colour) for op, colour in OPS.items()]
    if panel.legend.startswith("rank {rank}"):  # there are ten colours, so the last digit decides
        return [_override(rf"^rank \d*{digit}( |$)", colour) for digit, colour in enumerate(RANK_COLOURS)]
    return []


def _override(pattern: str, colour: str) -> dict[str, object]:
    return {
        "matcher": {"id": "byRegexp", "options": f"/{pattern}/"},
        "properties": [{"id": "color", "value": {"mode": "fixed", "fixedColor": colour}}],
    }
