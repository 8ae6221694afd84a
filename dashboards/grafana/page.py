"""A page as a dashboard for Grafana: its variables, annotations, and the positions of its panels."""

import json

from dashboards.address import DEFAULT_RANGE
from dashboards.colours import GREY, ORANGE, VERMILLION
from dashboards.grafana.panel import DATA_SOURCE, JOB, RANKS, build, build_step, uses_hosts
from dashboards.intervals import Intervals
from dashboards.marks import ACTIVITIES
from dashboards.panels import VIEWS, Panel
from zmon.schema.scraping import duration_text

SCHEMA_VERSION = 39  # of Grafana 10.4; later versions migrate it when they load it
CHART_HEIGHT = 8  # in Grafana's rows of 30 pixels
HEAT_MAP_HEIGHT = 14  # in Grafana's rows, too
HALF = 12  # half of Grafana's 24 columns


def rendered(intervals: Intervals) -> dict[str, str]:
    """Return the text of each dashboard, by the name of its file."""
    return {
        f"{view}.json": json.dumps(dashboard, indent=1, ensure_ascii=False) + "\n"
        for view, dashboard in dashboards(intervals).items()
    }


def dashboards(intervals: Intervals) -> dict[str, dict[str, object]]:
    """Return the dashboard of every page with panels, by the name of the page."""
    return {view: _dashboard(view, panels, intervals) for view, panels in VIEWS.items()}


def _dashboard(view: str, panels: tuple[Panel, ...], intervals: Intervals) -> dict[str, object]:
    refresh = duration_text(intervals.recorded.seconds)  # most charts get no new points sooner
    drawn = [build(panel, intervals) for panel in panels] + ([build_step()] if view == "job" else [])
    return {
        "uid": f"zmon-{view}",
        "title": f"zmon: {view.capitalize()}",
        "tags": ["zmon"],
        "schemaVersion": SCHEMA_VERSION,
        "editable": True,
        "timezone": "utc",  # the same for charts, findings and people in several time zones
        "time": {"from": f"now-{DEFAULT_RANGE}", "to": "now"},
        "refresh": refresh,
        "graphTooltip": 1,  # one crosshair for all panels
        "links": [_LINK],
        "templating": {"list": _variables(panels)},
        "annotations": {"list": _annotations(refresh) if _shows_one_job(panels) else []},
        "panels": _with_positions(drawn),
    }


_LINK = {  # links to the other dashboards, for the same job and time
    "type": "dashboards",
    "title": "zmon",
    "tags": ["zmon"],
    "asDropdown": False,
    "icon": "external link",
    "includeVars": True,
    "keepTime": True,
    "targetBlank": False,
    "tooltip": "",
    "url": "",
}


def _variables(panels: tuple[Panel, ...]) -> list[dict[str, object]]:
    """Return the variables: data source, and job, host and rank if a panel uses them."""
    source = {"type": "datasource", "name": "datasource", "label": "Prometheus", "query": "prometheus", "refresh": 1}
    variables = [source]
    if _shows_one_job(panels):
        variables.append(_variable("job_id", "Job", "label_values(zmon_job_info, job_id)", sort=1))
    if any(map(uses_hosts, panels)):
        host = _variable("host", "Host", f"label_values({RANKS}, host)", sort=7)
        everything = {"text": ["All"], "value": ["$__all"]}
        variables.append(host | {"multi": True, "includeAll": True, "allValue": ".*", "current": everything})
    if any("$rank" in panel.promql for panel in panels):
        variables.append(_variable("rank", "Rank", f"label_values(zmon_rank_info{{job_id={JOB}}}, rank)", sort=3))
    return variables


def _variable(name: str, label: str, query: str, sort: int) -> dict[str, object]:
    """Return a variable with the values of a query. `sort`: 1 alphabetical, 3 numerical, 7 natural order."""
    return {
        "type": "query",
        "name": name,
        "label": label,
        "datasource": DATA_SOURCE,
        "definition": query,
        "query": {"query": query, "refId": "PrometheusVariableQueryEditor-VariableQuery", "qryType": 1},
        "refresh": 2,  # when the time range changes, so that a job of an hour ago can be selected
        "sort": sort,
        "multi": False,
        "includeAll": False,
    }


def _findings(severity: str) -> str:
    """Return PromQL for findings whose severity matches, such as `="critical"`: a series for each cause and culprit.

    If several hubs report a finding, it has one series. The label `who` is built here because not every finding has a
    rank, and Grafana shows the name of a label without value.
    """
    findings = f"max by (cause, severity, rank, host) (zmon_finding{{job_id={JOB}, severity{severity}}}) == 1"
    job = f'label_replace({findings}, "who", "the job", "", "")'
    return f'label_replace(label_replace({job}, "who", "$1", "host", "(.+)"), "who", "rank $1", "rank", "(.+)")'


def _annotations(step: str) -> list[dict[str, object]]:
    """Return the marks on all charts of a job: findings and activities."""
    activities = ACTIVITIES.replace("$job", JOB)
    return [
        _annotation("Critical findings", VERMILLION, _findings('="critical"'), step, title="{{cause}}", text="{{who}}"),
        _annotation("Findings", ORANGE, _findings('!~"critical|info"'), step, title="{{cause}}", text="{{who}}"),
        _annotation("Activities", GREY, activities, step, title="{{activity}}", text=""),
    ]


def _shows_one_job(panels: tuple[Panel, ...]) -> bool:
    return any("$job" in panel.promql or uses_hosts(panel) for panel in panels)


def _annotation(name: str, colour: str, promql: str, step: str, *, title: str, text: str) -> dict[str, object]:
    return {
        "name": name,
        "datasource": DATA_SOURCE,
        "enable": True,
        "iconColor": colour,
        "titleFormat": title,
        "textFormat": text,
        "tagKeys": "host,severity",
        "expr": promql,  # Grafana 10 and 11 read this, later versions read the target
        "step": step,
        "target": {"refId": "A", "datasource": DATA_SOURCE, "expr": promql, "interval": step, "range": True},
    }


def _with_positions(panels: list[dict[str, object]]) -> list[dict[str, object]]:
    """Return the panels with positions in two columns."""
    positioned = []
    y = 0
    for first in range(0, len(panels), 2):
        row = panels[first : first + 2]
        height = max(HEAT_MAP_HEIGHT if panel["type"] == "status-history" else CHART_HEIGHT for panel in row)
        positioned += [
            panel | {"gridPos": {"h": height, "w": HALF, "x": HALF * column, "y": y}}
            for column, panel in enumerate(row)
        ]
        y += height
    return positioned
