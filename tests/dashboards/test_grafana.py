"""Tests of the Grafana dashboards.

Their files are up to date, all queries go to the selected Prometheus, and promtool parses them. A missing value is
shown as a gap or as "unknown", never as zero.
"""

import json
import re
from pathlib import Path

import pytest

from dashboards.colours import CATEGORIES, OPS, RANKS
from dashboards.grafana import dashboards, rendered
from dashboards.grafana.panel import DATA_SOURCE, MAX_LABELS, STEP_PANEL
from dashboards.intervals import CLUSTER, ONE_MACHINE
from dashboards.panels import ALL, VIEWS
from dashboards.panels.communication import ALL_TO_ALL, BANDWIDTH, IN_FLIGHT
from dashboards.panels.panel import MAX_ROWS, MAX_SERIES, series_names
from dashboards.panels.ranks import MEMORY, SELF_TIME, WAITING
from tests.dashboards.promtool import complaints_about_answers, complaints_about_queries
from tests.dashboards.sampling import SETS, sampling_seconds
from tests.places import REPOSITORY
from zmon.schema.scraping import duration_seconds, duration_text

FILES = {
    ONE_MACHINE: REPOSITORY / "dashboards" / "grafana",
    CLUSTER: REPOSITORY / "helm" / "zmon" / "files" / "grafana",
}
DASHBOARDS = dashboards(ONE_MACHINE)
PANELS = [panel for dashboard in DASHBOARDS.values() for panel in dashboard["panels"]]
BY_TITLE = {panel["title"]: panel for panel in PANELS}
MARKS = {mark["name"]: mark["expr"] for mark in DASHBOARDS["job"]["annotations"]["list"]}
# Values that Grafana might fill in.
BUILT_IN = {"__rate_interval": "40s", "__rate_interval_ms": "40000", "__range": "900s", "__all": ""}
SELECTED = {"job_id": "ads", "host": ".*", "rank": "3", "datasource": "prometheus"}


@pytest.mark.parametrize("intervals", FILES, ids=["one machine", "cluster"])
def test_dashboard_files_equal_generated_dashboards(intervals):
    folder = FILES[intervals]
    written = {file.name: file.read_text(encoding="utf-8") for file in folder.glob("*.json")}
    assert written == rendered(intervals), f"The panels have changed: run `make generate` and commit {folder}."


def test_dashboard_has_panels_of_its_page_in_order():
    for view, panels in VIEWS.items():
        titles = [panel["title"] for panel in DASHBOARDS[view]["panels"]]
        assert titles[: len(panels)] == [panel.question for panel in panels]
    assert len(PANELS) == len(BY_TITLE) == len(ALL) + 1, "the panels of all pages, and the categories of a step"


def test_dashboards_query_only_the_selected_prometheus():
    sources = [part["datasource"] for part in _dicts(DASHBOARDS) if "datasource" in part]
    assert sources
    assert all(source == DATA_SOURCE for source in sources)
    for dashboard in DASHBOARDS.values():
        source, *variables = dashboard["templating"]["list"]
        assert (source["name"], source["type"], source["query"]) == ("datasource", "datasource", "prometheus")
        parts = [*variables, *dashboard["annotations"]["list"], *dashboard["panels"]]
        parts += [target for panel in dashboard["panels"] for target in panel["targets"]]
        assert all("datasource" in part for part in parts)


def test_promtool_parses_every_query_with_values_of_variables(tmp_path):
    queries = {_with_variables(part["expr"]) for part in _dicts(DASHBOARDS) if "expr" in part}
    queries |= {_with_variables(query) for query in _selectors()}
    assert complaints_about_queries(tmp_path, queries) == ""
    assert not re.search(r"\$[^1]", "".join(queries))


@pytest.mark.parametrize("view", DASHBOARDS)
def test_variables_are_exactly_the_used_ones(view):
    names = {variable["name"] for variable in DASHBOARDS[view]["templating"]["list"]}
    assert names <= set(SELECTED)
    used = set(re.findall(r"\$\{?([a-z_]+)", json.dumps(DASHBOARDS[view])))
    assert used <= names | set(BUILT_IN)
    assert names <= used, "a variable without effect is misleading"


def test_job_dashboard_has_no_variable_for_host_or_rank():
    names = [variable["name"] for variable in DASHBOARDS["job"]["templating"]["list"]]
    assert names == ["datasource", "job_id"]


def test_dashboard_of_all_jobs_has_neither_variables_nor_marks_of_one_job():
    assert [variable["name"] for variable in DASHBOARDS["cluster"]["templating"]["list"]] == ["datasource"]
    assert DASHBOARDS["cluster"]["annotations"]["list"] == []


def test_dashboards_and_panels_have_unique_ids():
    assert len({dashboard["uid"] for dashboard in DASHBOARDS.values()}) == len(VIEWS)
    assert all(re.fullmatch(r"zmon-[a-z]{1,35}", dashboard["uid"]) for dashboard in DASHBOARDS.values())
    assert len({panel["id"] for panel in PANELS}) == len(PANELS)


@pytest.mark.parametrize("view", DASHBOARDS)
def test_panels_do_not_overlap(view):
    occupied = set()
    for panel in DASHBOARDS[view]["panels"]:
        position = panel["gridPos"]
        columns = range(position["x"], position["x"] + position["w"])
        cells = {(x, y) for x in columns for y in range(position["y"], position["y"] + position["h"])}
        assert not cells & occupied
        assert position["x"] + position["w"] <= 24
        occupied |= cells


def test_missing_value_is_shown_as_gap_or_unknown_never_zero():
    for panel in PANELS:
        defaults = panel["fieldConfig"]["defaults"]
        assert defaults["noValue"] == "unknown"
        assert "mappings" not in defaults
        assert not defaults["custom"].get("spanNulls", False)
        assert "vector(" not in "".join(target["expr"] for target in panel["targets"])


def test_panel_description_names_its_series_and_call_that_reports():
    description = BY_TITLE["Does the loss fall?"]["description"]
    assert "`zmon:job_report:mean`" in description
    assert "`zmon.report(loss=…)`" in description


def _colours(panel: dict, name: str) -> list[str]:
    """Return the colours that Grafana gives to a series of this name, beside the default."""
    overrides = panel["fieldConfig"]["overrides"]
    matched = [rule for rule in overrides if re.search(rule["matcher"]["options"].strip("/"), name)]
    return [rule["properties"][0]["value"]["fixedColor"] for rule in matched]


def test_time_categories_have_the_same_colours_as_on_pages():
    stacked = [BY_TITLE[panel.question] for panel in ALL if panel.shape == "areas"]
    for panel in [*stacked, BY_TITLE[STEP_PANEL.question]]:
        for name, colour in CATEGORIES.items():
            assert _colours(panel, name) == _colours(panel, f"wait: {name}") == [colour]
        assert len(panel["fieldConfig"]["overrides"]) == len(CATEGORIES)


def test_lines_of_ops_and_ranks_have_the_same_colours_as_on_pages():
    for op, colour in OPS.items():
        assert _colours(BY_TITLE[BANDWIDTH.question], op) == [colour]
        assert _colours(BY_TITLE[IN_FLIGHT.question], f"{op}: exposed") == [colour]
    for rank in (0, 7, 10, 4097):
        assert _colours(BY_TITLE[ALL_TO_ALL.question], f"rank {rank}") == [RANKS[rank % 10]]
        assert _colours(BY_TITLE[MEMORY.question], f"rank {rank} (process)") == [RANKS[rank % 10]]


@pytest.mark.parametrize(("panel", "lightest_first"), [(WAITING, True), (SELF_TIME, False)])
def test_colour_scale_is_light_at_low_or_high_end_by_panel(panel, lightest_first):
    steps = BY_TITLE[panel.question]["fieldConfig"]["defaults"]["thresholds"]["steps"]
    light = [sum(bytes.fromhex(step["color"][1:])) for step in steps]
    assert light == sorted(light, reverse=lightest_first)


@pytest.mark.parametrize("intervals", SETS)
def test_min_step_of_query_is_interval_of_its_slowest_series(intervals):
    """Grafana makes $__rate_interval at least four times as long, so a rate has four samples."""
    seconds = sampling_seconds(intervals)
    for view, panels in VIEWS.items():
        by_title = {panel["title"]: panel for panel in dashboards(intervals)[view]["panels"]}
        for panel in panels:
            for target in by_title[panel.question]["targets"]:
                slowest = max(seconds[name] for name in series_names(target["expr"]))
                assert duration_seconds(target["interval"]) == slowest


@pytest.mark.parametrize("intervals", SETS)
def test_dashboards_and_marks_are_drawn_again_when_recorded_series_have_new_points(intervals):
    recorded = duration_text(intervals.recorded.seconds)
    for dashboard in dashboards(intervals).values():
        assert dashboard["refresh"] == recorded
        assert {mark["step"] for mark in dashboard["annotations"]["list"]} <= {recorded}


def test_panel_with_few_ranks_has_a_line_per_rank(tmp_path):
    targets = BY_TITLE[MEMORY.question]["targets"]
    by_rank = {f'{{kind="process", rank="{rank}"}}': rank + 1 for rank in range(MAX_SERIES)}
    _assert_answers(tmp_path, _memory(MAX_SERIES), {targets[0]["expr"]: by_rank, targets[1]["expr"]: {}})
    assert targets[0]["legendFormat"] == "rank {{rank}} ({{kind}})"


def test_panel_with_many_ranks_has_largest_and_smallest(tmp_path):
    targets = BY_TITLE[MEMORY.question]["targets"]
    summary = {f'kind="process", spread="{name}"': value for name, value in (("largest", 9), ("smallest", 1))}
    recorded = {f'zmon:job_rank_memory:spread{{job_id="ads", {labels}}}': value for labels, value in summary.items()}
    spread = {f"{{{labels}}}": value for labels, value in summary.items()}
    series = _memory(MAX_SERIES + 1) | recorded
    _assert_answers(tmp_path, series, {targets[0]["expr"]: {}, targets[1]["expr"]: spread})
    assert targets[1]["legendFormat"] == "{{spread}} {{kind}}"


def test_row_panel_of_many_ranks_has_a_row_per_host(tmp_path):
    series = {f'zmon:rank_self_seconds:total{{job_id="ads", rank="{rank}"}}': "0+2" for rank in range(MAX_LABELS + 1)}
    series |= {
        f'zmon:job_host_own:max{{job_id="ads", host="n{host}"}}': self_time for host, self_time in enumerate((0.2, 0.9))
    }
    series |= {f'zmon:job_host:ranks{{job_id="ads", host="n{host}"}}': 16 + host for host in range(2)}
    ranks, hosts, outliers = (target["expr"] for target in BY_TITLE[SELF_TIME.question]["targets"])
    _assert_answers(tmp_path, series, {ranks: {}, hosts: {'{host="n0"}': 0.2, '{host="n1"}': 0.9}, outliers: {}})


def test_row_panel_of_many_hosts_has_hosts_that_stand_out(tmp_path):
    numbers = range(MAX_ROWS + 1)
    series = {f'zmon:job_host_own:max{{job_id="ads", host="n{host}"}}': 0.2 for host in numbers}
    series |= {f'zmon:job_host:ranks{{job_id="ads", host="n{host}"}}': 1 for host in numbers}
    series |= {'zmon:job_host_own:gap{job_id="ads", host="n7"}': 0.1}
    series |= {'zmon:job_host_own:spread{job_id="ads", spread="median"}': 0.3}
    ranks, hosts, outliers = (target["expr"] for target in BY_TITLE[SELF_TIME.question]["targets"])
    shown = {'{host="n7"}': 0.2, '{host="all hosts: median"}': 0.3}
    _assert_answers(tmp_path, series, {ranks: {}, hosts: {}, outliers: shown})


def test_annotation_of_finding_names_rank_host_or_job(tmp_path):
    finding = 'zmon_finding{job_id="ads", cause="slow", severity="critical", '
    series = {
        f'{finding}rank="2", host="n1", instance="hub-a"}}': 1,
        f'{finding}rank="2", host="n1", instance="hub-b"}}': 1,
        f'{finding}rank="", host="n2"}}': 1,
        f'{finding}rank="", host=""}}': 1,
    }
    marks = {
        '{cause="slow", severity="critical", rank="2", host="n1", who="rank 2"}': 1,
        '{cause="slow", severity="critical", host="n2", who="n2"}': 1,
        '{cause="slow", severity="critical", who="the job"}': 1,
    }
    _assert_answers(tmp_path, series, {MARKS["Critical findings"]: marks, MARKS["Findings"]: {}})


def test_info_findings_other_jobs_and_resolved_findings_have_no_annotation(tmp_path):
    series = {
        'zmon_finding{job_id="ads", cause="a", severity="info"}': 1,
        'zmon_finding{job_id="other", cause="b", severity="critical"}': 1,
        'zmon_finding{job_id="ads", cause="c", severity="critical"}': 0,
        'zmon:job_activity:ranks{job_id="ads", activity="train"}': 4,
    }
    _assert_answers(tmp_path, series, {promql: {} for promql in MARKS.values()})


def test_annotation_has_same_query_for_later_versions_of_grafana():
    for dashboard in DASHBOARDS.values():
        for mark in dashboard["annotations"]["list"]:
            assert (mark["target"]["expr"], mark["target"]["interval"]) == (mark["expr"], mark["step"])


def _memory(num_ranks: int) -> dict[str, int]:
    """Return the series of ranks on one host: rank 0 uses one byte, rank 1 two, and so on."""
    memory = {
        f'zmon:rank_memory:bytes{{job_id="ads", host="n1", kind="process", rank="{rank}"}}': rank + 1
        for rank in range(num_ranks)
    }
    return memory | {'zmon:job_host:ranks{job_id="ads", host="n1"}': num_ranks}


def _assert_answers(folder: Path, series: dict[str, int | str], expected: dict[str, dict[str, float]]) -> None:
    """Assert that Prometheus answers each query with these samples. The series are constant; `0+2` grows."""
    values = {name: f"{value}x20" for name, value in series.items()}
    answers = {(_with_variables(promql), 120): samples for promql, samples in expected.items()}
    assert complaints_about_answers(folder, values, answers, "10s") == ""


def _with_variables(promql: str) -> str:
    """Return the PromQL that Grafana sends. `$1` belongs to Prometheus."""
    return re.sub(r"\$\{?([a-z_]+)\}?", lambda name: (BUILT_IN | SELECTED)[name[1]], promql)


def _selectors() -> list[str]:
    """Return the PromQL of the series whose labels are the values of a variable."""
    variables = [variable for dashboard in DASHBOARDS.values() for variable in dashboard["templating"]["list"][1:]]
    return [re.fullmatch(r"label_values\((.+), \w+\)", variable["query"]["query"])[1] for variable in variables]


def _dicts(value: object) -> list[dict]:
    """Return every dict within a value: the value itself, and those in its lists and dicts."""
    if isinstance(value, list):
        return [part for item in value for part in _dicts(item)]
    if not isinstance(value, dict):
        return []
    return [value, *(part for item in value.values() for part in _dicts(item))]
