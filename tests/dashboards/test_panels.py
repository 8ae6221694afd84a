"""Tests of the queries of all panels and pages: promtool parses them, and zmon exports or records their series."""

import re
from dataclasses import replace

import pytest
import yaml

from dashboards import glance, gpu_time, marks, side
from dashboards.intervals import CLUSTER, ONE_MACHINE
from dashboards.panels import ALL, Selection
from dashboards.panels.panel import MAX_ROWS, MAX_SERIES
from dashboards.panels.ranks import RANK_TIME
from dashboards.queries import quoted
from dashboards.rules.render import rendered
from dashboards.views import hosts, time_bar
from tests.dashboards.promtool import complaints_about_answers, complaints_about_queries
from tests.dashboards.sampling import DAEMONS, RECORDED

HOST_QUERIES = (hosts.GPUS, hosts.PROCESSORS, hosts.RANKS, hosts.NUM_HOSTS, hosts.LEAST_BUSY, hosts.ALL_HOSTS)
FLEETS = (hosts.Fleet(), hosts.Fleet(join=f" and on (host) {Selection('ads').hosts}").limited_to(("n.1", 'n"2')))
PAGE_QUERIES = (
    glance.RANKS, glance.JOBS, glance.AGENTS, glance.heartbeat(CLUSTER), glance.INTERVALS, glance.FIRING,
    *gpu_time.QUERIES, marks.ACTIVITIES, hosts.NAMES, time_bar.TIME_PER_STEP, *side.QUERIES,
    *(fleet.query(promql) for fleet in FLEETS for promql in HOST_QUERIES),
)  # fmt: skip
STRING = r'"(?:[^"\\]|\\.)*"'
SELECTIONS = (
    Selection('a"b', window=10),
    Selection("ads", rank=3, host='n"1', window=20, num_ranks=4),
    Selection("ads", num_ranks=MAX_SERIES + 1, num_hosts=MAX_SERIES + 1),
    Selection("ads", num_ranks=MAX_ROWS + 1, num_hosts=2),
    Selection("ads", host="n1", num_ranks=MAX_ROWS + 1),
    Selection("ads", num_ranks=8 * MAX_ROWS + 8, num_hosts=MAX_ROWS + 1, outlier_hosts=("n.1", 'n"2')),
)


def all_queries() -> list[str]:
    """Return every PromQL that a page sends, for few ranks and for many."""
    panel_queries = [
        panel.query(selection)
        for panel in ALL
        for selection in SELECTIONS
        if panel.outlier_promql or not selection.outlier_hosts
    ]
    panel_queries += [
        panel.fill(SELECTIONS[0].variables(), panel.outlier_promql) for panel in ALL if panel.outlier_promql
    ]
    return [
        *panel_queries,
        *(promql.replace("$job", quoted('a"b')).replace("$range", "900s") for promql in PAGE_QUERIES),
    ]


def test_promtool_parses_every_query(tmp_path):
    assert complaints_about_queries(tmp_path, all_queries()) == ""


def test_rank_that_two_scrape_jobs_read_counts_once(tmp_path):
    label_sets = [f'job_id="ads", rank="0", host="a", job="{name}-zmon-agent"' for name in ("x", "y")]
    series = {}
    for labels in label_sets:
        series[f"zmon_rank_info{{{labels}}}"] = "1x30"
        series[f'zmon_phase_seconds_total{{{labels}, phase="forward"}}'] = "0+0.5x30"
        series[f'zmon_collective_exposed_seconds_total{{{labels}, op="barrier"}}'] = "0+0.25x30"
    parts = {'phase="forward", part="forward"': 0.25, 'op="barrier", part="wait: barrier"': 0.125}
    expected = {
        (glance.JOBS, 50): {'{job_id="ads"}': 1},
        (RANK_TIME.query(Selection("ads", rank=0, window=20)), 50): {
            f"{{{labels}}}": value for labels, value in parts.items()
        },
    }
    assert complaints_about_answers(tmp_path, series, expected) == ""


def test_every_metric_of_a_query_is_exported():
    text = re.sub(STRING, lambda string: string[0] if "zmon_" in string[0] else '""', "\n".join(all_queries()))
    short = {f"zmon_{name}" for group in re.findall(r"zmon_\(([^)]*)\)", text) for name in group.split("|")}
    metric_names = short | set(re.findall(r"\bzmon_[a-z_]+[a-z]\b", text))
    assert metric_names
    assert metric_names <= set(DAEMONS)


def test_every_recorded_series_of_a_query_has_a_rule():
    series_names = set(re.findall(r"\bzmon:\w+:\w+", "\n".join(all_queries())))
    assert series_names
    assert series_names <= RECORDED


def test_every_series_recorded_for_panels_is_queried():
    groups = yaml.safe_load(rendered(ONE_MACHINE)["panels.yaml"])["groups"]
    names = {rule["record"] for group in groups for rule in group["rules"]}
    assert names - set(re.findall(r"\bzmon:\w+:\w+", "\n".join(all_queries()))) == set()


def test_keys_of_panels_are_unique():
    keys = [panel.key for panel in ALL]
    assert len(keys) == len(set(keys))


@pytest.mark.parametrize("panel", [panel for panel in ALL if panel.grows_with], ids=lambda panel: panel.key)
def test_panel_with_too_many_series_queries_recorded_summary(panel):
    few, many = (
        Selection("ads", num_ranks=number, num_hosts=number) for number in (panel.max_series, panel.max_series + 1)
    )
    assert panel.legend_for(few) == panel.legend
    labels = re.search(r"\bby \((.+?)\)", panel.summary_promql)[1].split(", ")
    assert re.findall(r"\{(\w+)\}", panel.legend_for(many)) == labels
    assert panel.query(few) == panel.query(Selection("ads", host=None, num_ranks=1))
    assert len(re.findall(r"zmon:job_\w+:(?:spread|min|max|count)\b", panel.query(many))) >= 1
    assert not re.search(r"zmon:(rank|gpu|host)_", panel.query(many))


def test_panel_by_host_has_line_per_host_if_hosts_are_few():
    host_panel = next(panel for panel in ALL if panel.grows_with == "hosts")
    assert "spread" not in host_panel.query(Selection("ads", num_ranks=1024, num_hosts=2))
    assert "spread" not in host_panel.query(Selection("ads", host="n1", num_ranks=1024, num_hosts=128))


@pytest.mark.parametrize("panel", [panel for panel in ALL if panel.grows_with], ids=lambda panel: panel.key)
def test_panel_with_selected_host_queries_this_host(panel):
    assert 'host="n1"' in panel.query(Selection("ads", host="n1", num_ranks=MAX_ROWS + 1))


@pytest.mark.parametrize("panel", [panel for panel in ALL if panel.shape == "rows"], ids=lambda panel: panel.key)
def test_heat_map_of_too_many_hosts_has_hosts_that_stand_out(panel):
    few, many = (Selection("ads", num_ranks=4096, num_hosts=number) for number in (MAX_ROWS, MAX_ROWS + 1))
    assert not panel.has_too_many_hosts(few)
    assert panel.has_too_many_hosts(many)
    assert not panel.has_too_many_hosts(Selection("ads", host="n1", num_ranks=4096, num_hosts=4096))
    promql = panel.query(replace(many, outlier_hosts=("n.1", "n2")))
    assert 'host=~"n\\\\.1|n2"' in promql
    assert ":spread" in promql


def test_hostile_name_stays_within_quotes_of_promql():
    promql = next(panel for panel in ALL if "$of_host" in panel.promql).query(
        Selection('x"} or up{a="', host='y"} or up{b="')
    )
    assert "up{" not in re.sub(STRING, '""', promql)
