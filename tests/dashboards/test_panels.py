"""The queries of all pages: Prometheus can parse them, and zmon exports or records every series in them."""

import re
import subprocess

import pytest
import yaml

from dashboards import glance, marks, side
from dashboards.panels import ALL, Selection
from dashboards.panels.panel import MAX_ROWS, MAX_SERIES
from dashboards.queries import quoted
from dashboards.views import host, hosts, waterfall
from tests.places import REPOSITORY
from zmon import metrics

RULES = REPOSITORY / "dashboards" / "rules"
FIXED = (
    glance.RANKS, glance.JOBS, glance.AGENTS, glance.HEARTBEAT, glance.FIRING, marks.ACTIVITIES, hosts.GPUS,
    hosts.PROCESSORS, hosts.RANKS, host.HOSTS, waterfall.TIME_PER_STEP, *side.QUERIES,
)  # fmt: skip
HISTOGRAM = {f"{metrics.STEP_HISTOGRAM}_{part}" for part in ("bucket", "sum", "count")}
STRING = r'"(?:[^"\\]|\\.)*"'
SELECTIONS = (
    Selection('a"b', window=10),
    Selection("ads", rank=3, host='n"1', window=20, num_ranks=4),
    Selection("ads", num_ranks=MAX_SERIES + 1, num_hosts=MAX_SERIES + 1),
    Selection("ads", num_ranks=MAX_ROWS + 1, num_hosts=2),
    Selection("ads", host="n1", num_ranks=MAX_ROWS + 1),
)


def queries() -> list[str]:
    """Return every PromQL that a page sends, for few ranks and for many."""
    of_panels = [panel.query(selection) for panel in ALL for selection in SELECTIONS]
    return [*of_panels, *(promql.replace("$job", quoted('a"b')).replace("$range", "900s") for promql in FIXED)]


def recorded() -> set[str]:
    """Return the names of all recorded series."""
    groups = [group for file in RULES.glob("*.yaml") for group in yaml.safe_load(file.read_text()).get("groups", ())]
    return {rule["record"] for group in groups for rule in group["rules"] if "record" in rule}


def test_prometheus_can_parse_every_query(tmp_path):
    rules = [{"record": f"asked:{number}", "expr": promql} for number, promql in enumerate(queries())]
    file = tmp_path / "asked.yaml"
    file.write_text(yaml.safe_dump({"groups": [{"name": "asked", "rules": rules}]}))
    done = subprocess.run(["promtool", "check", "rules", file], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_no_query_has_a_variable_left():
    assert [promql for promql in queries() if "$" in re.sub(STRING, '""', promql)] == []


def test_zmon_exports_every_metric_of_a_query():
    text = re.sub(STRING, lambda string: string[0] if "zmon_" in string[0] else '""', "\n".join(queries()))
    short = {f"zmon_{name}" for group in re.findall(r"zmon_\(([^)]*)\)", text) for name in group.split("|")}
    named = short | set(re.findall(r"\bzmon_[a-z_]+[a-z]\b", text))
    assert named
    assert named <= set(metrics.SPECS) | HISTOGRAM


def test_a_rule_records_every_recorded_series_of_a_query():
    named = set(re.findall(r"\bzmon:\w+:\w+", "\n".join(queries())))
    assert named
    assert named <= recorded()


def test_every_series_recorded_for_charts_is_drawn():
    groups = yaml.safe_load((RULES / "panels.yaml").read_text())["groups"]
    names = {rule["record"] for group in groups for rule in group["rules"]}
    assert names - set(re.findall(r"\bzmon:\w+:\w+", "\n".join(queries()))) == set()


@pytest.mark.parametrize("panel", ALL, ids=lambda panel: panel.key)
def test_a_panel_has_the_names_of_its_series(panel):
    assert panel.series()
    assert set(panel.series()) <= set(metrics.SPECS) | HISTOGRAM | recorded()


def test_keys_of_panels_are_unique():
    keys = [panel.key for panel in ALL]
    assert len(keys) == len(set(keys))


@pytest.mark.parametrize("panel", [panel for panel in ALL if panel.grows], ids=lambda panel: panel.key)
def test_with_too_many_series_it_queries_their_recorded_summary(panel):
    few, many = (
        Selection("ads", num_ranks=number, num_hosts=number) for number in (panel.max_series, panel.max_series + 1)
    )
    assert panel.series_name(few) == panel.legend
    assert panel.series_name(many).startswith("{host}" if panel.shape == "rows" else "{spread}")
    assert panel.query(few) == panel.query(Selection("ads", host=None, num_ranks=1))
    assert len(re.findall(r"zmon:job_\w+:(?:spread|min|max)\b", panel.query(many))) >= 1
    assert not re.search(r"zmon:(rank|gpu|host)_", panel.query(many))


def test_few_hosts_of_many_ranks_have_a_line_each():
    of_hosts = next(panel for panel in ALL if panel.grows == "hosts")
    assert "spread" not in of_hosts.query(Selection("ads", num_ranks=1024, num_hosts=2))
    assert "spread" not in of_hosts.query(Selection("ads", host="n1", num_ranks=1024, num_hosts=128))


def test_resources_are_summed_up_separately():
    (pressure,) = [panel for panel in ALL if panel.key == "pressure"]
    assert pressure.series_name(Selection("ads", num_hosts=MAX_SERIES + 1)) == "{spread} {resource}"


def test_rows_of_many_ranks_are_hosts_unless_one_is_selected():
    panel = next(panel for panel in ALL if panel.shape == "rows")
    assert panel.series_name(Selection("ads", num_ranks=MAX_ROWS + 1)) == "{host}"
    assert panel.series_name(Selection("ads", num_ranks=MAX_ROWS + 1, host="n1")) == panel.legend
    assert panel.series_name(Selection("ads", num_ranks=MAX_ROWS)) == panel.legend


@pytest.mark.parametrize("panel", [panel for panel in ALL if panel.grows], ids=lambda panel: panel.key)
def test_a_selected_host_is_the_only_one_shown(panel):
    assert 'host="n1"' in panel.query(Selection("ads", host="n1", num_ranks=MAX_ROWS + 1))


def test_a_hostile_name_stays_within_its_quotes():
    promql = next(panel for panel in ALL if "$of_host" in panel.promql).query(
        Selection('x"} or up{a="', host='y"} or up{b="')
    )
    assert "up{" not in re.sub(STRING, '""', promql)
