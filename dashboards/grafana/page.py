"""A page as a dashboard: what can be chosen above its panels, what is marked on them, and where they are."""

from dashboards.address import RECORDED_SECONDS, USUAL
from dashboards.colours import GREY, ORANGE, VERMILLION
from dashboards.grafana.panel import DATA_SOURCE, JOB, RANKS, asks_hosts, made, made_step
from dashboards.marks import ACTIVITIES
from dashboards.panels import VIEWS, Panel

SCHEMA_VERSION = 39  # Grafana 10.4's; later ones bring it up to date as they load it
REFRESH = f"{RECORDED_SECONDS}s"
LOW, HIGH = 8, 14  # of a panel, in Grafana's rows of 30 pixels
HALF = 12  # of its 24 columns


def dashboards() -> dict[str, dict[str, object]]:
    """Of every page its dashboard, by the page's name."""
    return {view: _dashboard(view, panels) for view, panels in VIEWS.items()}


def _dashboard(view: str, panels: tuple[Panel, ...]) -> dict[str, object]:
    return {
        "uid": f"zmon-{view}",
        "title": f"zmon: {view.capitalize()}",
        "tags": ["zmon"],
        "schemaVersion": SCHEMA_VERSION,
        "editable": True,
        "timezone": "utc",  # one clock for charts, findings and people in several time zones
        "time": {"from": f"now-{USUAL}", "to": "now"},
        "refresh": REFRESH,
        "graphTooltip": 1,  # one crosshair for all panels
        "links": [_LINK],
        "templating": {"list": _variables(panels)},
        "annotations": {"list": [_annotation(*mark) for mark in MARKS]},
        "panels": _placed([*map(made, panels), *([made_step()] if view == "job" else [])]),
    }


_LINK = {  # to the other pages, for the same job and time
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
    """The Prometheus, the job, and host and rank where a panel asks for one."""
    source = {"type": "datasource", "name": "datasource", "label": "Prometheus", "query": "prometheus", "refresh": 1}
    variables = [source, _variable("job_id", "Job", "label_values(zmon_job_info, job_id)", sort=1)]
    if any(map(asks_hosts, panels)):
        host = _variable("host", "Host", f"label_values({RANKS}, host)", sort=7)
        everything = {"text": ["All"], "value": ["$__all"]}
        variables.append(host | {"multi": True, "includeAll": True, "allValue": ".*", "current": everything})
    if any("$rank" in panel.promql for panel in panels):
        variables.append(_variable("rank", "Rank", f"label_values(zmon_rank_info{{job_id={JOB}}}, rank)", sort=3))
    return variables


def _variable(name: str, label: str, query: str, sort: int) -> dict[str, object]:
    """`sort`: 1 by alphabet, 3 by number, 7 naturally."""
    return {
        "type": "query",
        "name": name,
        "label": label,
        "datasource": DATA_SOURCE,
        "definition": query,
        "query": {"query": query, "refId": "PrometheusVariableQueryEditor-VariableQuery", "qryType": 1},
        "refresh": 2,  # whenever the time changes: a job that ran an hour ago can be chosen for an hour ago
        "sort": sort,
        "multi": False,
        "includeAll": False,
    }


def _findings(severity: str) -> str:
    """Each cause and whom it blames, once though two hubs tell it.

    `who` is put together here: Grafana writes a label's name where it has no value, and not every finding has a rank.
    """
    told = f"max by (cause, severity, rank, host) (zmon_finding{{job_id={JOB}, severity{severity}}}) == 1"
    job = f'label_replace({told}, "who", "the job", "", "")'
    return f'label_replace(label_replace({job}, "who", "$1", "host", "(.+)"), "who", "rank $1", "rank", "(.+)")'


MARKS = (  # what is marked, its colour, its PromQL, and what is written there
    ("Critical findings", VERMILLION, _findings('="critical"'), "{{cause}}", "{{who}}"),
    ("Findings", ORANGE, _findings('!~"critical|info"'), "{{cause}}", "{{who}}"),
    ("What the job was at", GREY, ACTIVITIES.replace("$job", JOB), "{{activity}}", ""),
)


def _annotation(name: str, colour: str, promql: str, title: str, text: str) -> dict[str, object]:
    return {
        "name": name,
        "datasource": DATA_SOURCE,
        "enable": True,
        "iconColor": colour,
        "titleFormat": title,
        "textFormat": text,
        "tagKeys": "host,severity",
        "expr": promql,  # Grafana 10 and 11 ask this, later ones the target
        "step": REFRESH,
        "target": {"refId": "A", "datasource": DATA_SOURCE, "expr": promql, "interval": REFRESH, "range": True},
    }


def _placed(panels: list[dict[str, object]]) -> list[dict[str, object]]:
    """Two abreast."""
    placed, y = [], 0
    for first in range(0, len(panels), 2):
        abreast = panels[first : first + 2]
        height = max(HIGH if panel["type"] == "status-history" else LOW for panel in abreast)
        placed += [
            panel | {"gridPos": {"h": height, "w": HALF, "x": HALF * n, "y": y}} for n, panel in enumerate(abreast)
        ]
        y += height
    return placed
