"""A panel as Grafana draws it: the same question and PromQL, the nearest of its shapes, the same colours."""

import re
from dataclasses import dataclass
from typing import NotRequired, TypedDict
from zlib import crc32

from dashboards.address import COLUMNS, RECORDED_SECONDS
from dashboards.colours import CAUSES, CIVIDIS, GREY
from dashboards.panels import Asked, Panel
from dashboards.panels.panel import MOST_ROWS
from dashboards.queries import MOST_SERIES
from dashboards.views.waterfall import SPENT
from dashboards.words import UNKNOWN

DATA_SOURCE = {"type": "prometheus", "uid": "${datasource}"}
JOB = '"$job_id"'
OF_HOST = ', host=~"$host"'
RANKS = f"zmon:job_host:ranks{{job_id={JOB}}}"
RANKS_OF_HOST = f"zmon:job_host:ranks{{job_id={JOB}{OF_HOST}}}"
UNITS = {  # with SI prefixes for bytes, as on the page
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
MOST_LABELS = 32  # of the rows of a panel: names of more would lie on each other
STEP = Panel(  # the page draws it as a waterfall, which Grafana has not
    key="step",
    question="What is a step spent on, in the mean?",
    unit="seconds",
    legend="{cause}",
    promql=f"sort_desc(\n{SPENT.replace('$range', '$window')}\n)",
    absent="a step has to end within the time that is shown",
)


class _FieldConfig(TypedDict):
    """How values are shown; the keys are Grafana's."""

    defaults: dict[str, object]
    overrides: list[dict[str, object]]


class _Drawn(TypedDict):
    """The part of a panel that depends on its shape; the keys are Grafana's."""

    type: str
    maxDataPoints: NotRequired[int]
    fieldConfig: _FieldConfig
    options: dict[str, object]


@dataclass(frozen=True)
class _Chosen(Asked):
    """What is looked at, in Grafana's words: it fills in what is chosen above the panels."""

    rate_window: str = "$__rate_interval"

    def words(self) -> dict[str, str]:
        """Hosts are a pattern, as several or all may be chosen."""
        return {
            "job": JOB,
            "rank": '"$rank"',
            "hosts": f"group by (host) (last_over_time({RANKS_OF_HOST}[$__range] @ end()))",
            "of_host": OF_HOST,
            "range": "$__range",
            "window": self.rate_window,
            "seconds": "($__rate_interval_ms / 1000)",
        }


def made(panel: Panel) -> dict[str, object]:
    """As Grafana's JSON, without its place."""
    return _panel(panel, _targets(panel), _DRAWN[panel.shape](panel))


def made_step() -> dict[str, object]:
    """What a step is spent on, over all of the time that is shown."""
    target = _target(STEP, "A", STEP.asked(_Chosen(rate_window="$__range")), STEP.legend)
    return _panel(STEP, [target | {"range": False, "instant": True}], _bars())


def asks_hosts(panel: Panel) -> bool:
    """Whether it shows those hosts only that are chosen."""
    return re.search(r"\$(hosts|of_host)\b", panel.promql) is not None


def _panel(panel: Panel, targets: list[dict[str, object]], drawn: _Drawn) -> dict[str, object]:
    drawn["fieldConfig"]["defaults"] |= {"unit": UNITS[panel.unit], "noValue": UNKNOWN}
    return {
        "id": crc32(panel.key.encode()) % 2**31,  # of its name: a link to it holds when others come before it
        "title": panel.question,
        "description": _description(panel, is_summed_up=len(targets) > 1),
        "datasource": DATA_SOURCE,
        "targets": targets,
        **drawn,
    }


def _description(panel: Panel, *, is_summed_up: bool) -> str:
    """What it is drawn from, what would make that known, and when it is less than all."""
    names = ", ".join(f"`{name}`" for name in panel.series())
    told = f"Drawn from {names}; {UNKNOWN} where there is none{f': {panel.absent}' if panel.absent else ''}."
    if not is_summed_up:
        return told
    what = "a row for each host" if panel.shape == "rows" else "largest, median and smallest of all of the job"
    return f"{told} Of more than {_most(panel)} {panel.grows}: {what}."


def _targets(panel: Panel) -> list[dict[str, object]]:
    """Each rank where they are few, else the sum of them: PromQL tells which, as nobody knows that beforehand."""
    few, many = _Chosen(), _Chosen(num_ranks=MOST_ROWS + 1, num_hosts=MOST_SERIES + 1)
    if not panel.grows:
        return [_target(panel, "A", panel.asked(few), panel.name(few))]
    how = "count" if panel.grows == "hosts" else "sum"
    number = f"{how}({RANKS_OF_HOST if asks_hosts(panel) else RANKS})"
    most = _most(panel)
    return [
        _target(panel, "A", f"(\n{panel.asked(few)}\n)\nand on () ({number} <= {most})", panel.name(few)),
        _target(panel, "B", f"(\n{panel.asked(many)}\n)\nand on () ({number} > {most})", panel.name(many)),
    ]


def _most(panel: Panel) -> int:
    return MOST_LABELS if panel.shape == "rows" else panel.most


def _target(panel: Panel, ref_id: str, promql: str, legend: str) -> dict[str, object]:
    target = {
        "refId": ref_id,
        "datasource": DATA_SOURCE,
        "expr": promql,
        "legendFormat": re.sub(r"\{(\w+)\}", r"{{\1}}", legend),
        "editorMode": "code",
        "range": True,
        "instant": False,
    }
    if panel.is_recorded:
        # $__rate_interval is at least four of these. Without it those are the data source's, of scrapes: within four
        # times two seconds no two points of what is recorded lie, and there is no rate.
        target["interval"] = f"{RECORDED_SECONDS}s"
    return target


def _line_style(panel: Panel) -> dict[str, object]:
    style: dict[str, object] = {
        "drawStyle": "line",
        "lineWidth": 2,
        "fillOpacity": 0,
        "showPoints": "auto",
        "spanNulls": False,
    }
    return style | {"axisSoftMin": 0} if panel.from_zero else style


def _lines(panel: Panel) -> _Drawn:
    defaults: dict[str, object] = {"color": {"mode": "palette-classic"}, "custom": _line_style(panel)}
    return {
        "type": "timeseries",
        "fieldConfig": {"defaults": defaults, "overrides": []},
        "options": {"legend": _legend(), "tooltip": {"mode": "multi", "sort": "desc"}},
    }


def _areas(panel: Panel) -> _Drawn:
    stacked = {"lineWidth": 0, "fillOpacity": 85, "showPoints": "never", "stacking": {"mode": "normal", "group": "A"}}
    return _lines(panel) | {"fieldConfig": _by_cause(_line_style(panel) | stacked)}


def _rows(panel: Panel) -> _Drawn:
    """Questions speak of light rows, and Grafana's own cividis turns dark and light about in one of its themes: so as
    steps, which have a legend too.
    """
    colours = CIVIDIS[::-1] if panel.light_is == "low" else CIVIDIS
    steps = [{"color": colour, "value": place / len(colours) or None} for place, colour in enumerate(colours)]
    defaults = {
        "color": {"mode": "thresholds"},
        "thresholds": {"mode": "absolute", "steps": steps},
        "min": 0,
        "max": 1,
        "custom": {"fillOpacity": 100, "lineWidth": 0},
    }
    return {
        "type": "status-history",
        "maxDataPoints": COLUMNS,  # it draws nothing at all of more than half as many as it has pixels
        "fieldConfig": {"defaults": defaults, "overrides": []},
        "options": {
            "showValue": "never",
            "rowHeight": 0.95,
            "colWidth": 1,
            "legend": _legend(),
            "tooltip": {"mode": "single", "sort": "none"},
        },
    }


def _bars() -> _Drawn:
    return {
        "type": "bargauge",
        "fieldConfig": _by_cause({}, min=0),
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


_DRAWN = {"lines": _lines, "areas": _areas, "rows": _rows}


def _legend() -> dict[str, object]:
    return {"displayMode": "list", "placement": "bottom", "showLegend": True, "calcs": []}


def _by_cause(custom: dict[str, object], **defaults: object) -> _FieldConfig:
    """The page's colours: waiting for an op has that op's, and what nobody has heard of is grey."""
    return {
        "defaults": {"color": {"mode": "fixed", "fixedColor": GREY}, "custom": custom, **defaults},
        "overrides": [
            {
                "matcher": {"id": "byRegexp", "options": f"/^(wait: )?{cause}$/"},
                "properties": [{"id": "color", "value": {"mode": "fixed", "fixedColor": colour}}],
            }
            for cause, colour in CAUSES.items()
        ],
    }
