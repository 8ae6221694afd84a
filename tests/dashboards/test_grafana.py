"""Does Grafana ask what the page asks, of the Prometheus that is chosen, and is what is missing a gap there too?"""

import json
import re
import subprocess
from pathlib import Path
from typing import get_args

import pytest
import yaml

from dashboards.address import RECORDED_SECONDS
from dashboards.colours import CAUSES
from dashboards.grafana import dashboards
from dashboards.grafana.panel import DATA_SOURCE, MOST_LABELS, UNITS
from dashboards.panels import ALL, VIEWS
from dashboards.panels.panel import MOST_SERIES, Unit
from dashboards.panels.ranks import MEMORY, SELF_TIME, WAITING
from tests.places import REPOSITORY

FILES = REPOSITORY / "dashboards" / "grafana"
DASHBOARDS = dashboards()
PANELS = [panel for dashboard in DASHBOARDS.values() for panel in dashboard["panels"]]
BY_TITLE = {panel["title"]: panel for panel in PANELS}
MARKS = {mark["name"]: mark["expr"] for mark in DASHBOARDS["job"]["annotations"]["list"]}
BUILT_IN = {  # as Grafana might fill them in
    "__rate_interval": "40s",
    "__rate_interval_ms": "40000",
    "__range": "900s",
    "__all": "",
}
CHOSEN = {"job_id": "ads", "host": ".*", "rank": "3", "datasource": "prometheus"}


def test_what_is_written_is_what_the_code_makes():
    written = {file.stem: json.loads(file.read_text(encoding="utf-8")) for file in FILES.glob("*.json")}
    assert written == DASHBOARDS, "The panels have changed: run `make generate` and commit dashboards/grafana/."


def test_each_panel_is_in_one_dashboard_the_one_of_its_page():
    for view, panels in VIEWS.items():
        titles = [panel["title"] for panel in DASHBOARDS[view]["panels"]]
        assert titles[: len(panels)] == [panel.question for panel in panels]
    assert len(PANELS) == len(BY_TITLE) == len(ALL) + 1, "all of the page's, and what a step is spent on"


def test_all_are_asked_of_the_prometheus_that_is_chosen():
    named = [part["datasource"] for part in _parts(DASHBOARDS) if "datasource" in part]
    assert named
    assert all(one == DATA_SOURCE for one in named)
    for dashboard in DASHBOARDS.values():
        source, *variables = dashboard["templating"]["list"]
        assert (source["name"], source["type"], source["query"]) == ("datasource", "datasource", "prometheus")
        askers = [*variables, *dashboard["annotations"]["list"], *dashboard["panels"]]
        askers += [target for panel in dashboard["panels"] for target in panel["targets"]]
        assert all("datasource" in asker for asker in askers)


def test_prometheus_understands_every_question_as_grafana_sends_it(tmp_path):
    asked = {_filled(part["expr"]) for part in _parts(DASHBOARDS) if "expr" in part}
    asked |= {_filled(query) for query in _selectors()}
    rules = [{"record": f"asked:{number}", "expr": promql} for number, promql in enumerate(sorted(asked))]
    file = tmp_path / "asked.yaml"
    file.write_text(yaml.safe_dump({"groups": [{"name": "asked", "rules": rules}]}))
    done = subprocess.run(["promtool", "check", "rules", file], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert not re.search(r"\$[^1]", "".join(asked))


@pytest.mark.parametrize("view", DASHBOARDS)
def test_every_variable_that_is_used_can_be_chosen_or_is_grafanas_own(view):
    chosen = {variable["name"] for variable in DASHBOARDS[view]["templating"]["list"]}
    assert chosen <= set(CHOSEN)
    used = set(re.findall(r"\$\{?([a-z_]+)", json.dumps(DASHBOARDS[view])))
    assert used <= chosen | set(BUILT_IN)
    assert chosen <= used, "one that nothing follows misleads"


def test_a_page_of_the_whole_job_has_neither_host_nor_rank_to_choose():
    names = [variable["name"] for variable in DASHBOARDS["job"]["templating"]["list"]]
    assert names == ["datasource", "job_id"]


def test_dashboards_and_panels_have_names_of_their_own():
    assert len({dashboard["uid"] for dashboard in DASHBOARDS.values()}) == len(VIEWS)
    assert all(re.fullmatch(r"zmon-[a-z]{1,35}", dashboard["uid"]) for dashboard in DASHBOARDS.values())
    assert len({panel["id"] for panel in PANELS}) == len(PANELS)


@pytest.mark.parametrize("view", DASHBOARDS)
def test_no_panel_lies_on_another(view):
    taken = set()
    for panel in DASHBOARDS[view]["panels"]:
        at = panel["gridPos"]
        cells = {(x, y) for x in range(at["x"], at["x"] + at["w"]) for y in range(at["y"], at["y"] + at["h"])}
        assert not cells & taken
        assert at["x"] + at["w"] <= 24
        taken |= cells


def test_every_unit_has_one_of_grafanas():
    assert set(UNITS) == set(get_args(Unit))


def test_missing_is_a_gap_or_unknown_and_never_zero():
    for panel in PANELS:
        defaults = panel["fieldConfig"]["defaults"]
        assert defaults["noValue"] == "unknown"
        assert "mappings" not in defaults
        assert not defaults["custom"].get("spanNulls", False)
        assert "vector(" not in "".join(target["expr"] for target in panel["targets"])


def test_a_panel_says_what_would_make_it_known():
    told = BY_TITLE["Does the loss fall?"]["description"]
    assert "`zmon:job_report:mean`" in told
    assert "`zmon.report(loss=…)`" in told


def test_what_means_the_same_has_the_colour_of_the_page():
    coloured = [panel for panel in PANELS if panel["fieldConfig"]["overrides"]]
    stacked = [panel.question for panel in ALL if panel.shape == "areas"]
    assert [panel["title"] for panel in coloured if panel["type"] == "timeseries"] == stacked
    for panel in coloured:
        overrides = panel["fieldConfig"]["overrides"]
        for cause, colour in CAUSES.items():
            for name in (cause, f"wait: {cause}"):
                matched = [one for one in overrides if re.search(one["matcher"]["options"].strip("/"), name)]
                assert [one["properties"][0]["value"]["fixedColor"] for one in matched] == [colour]
        assert len(overrides) == len(CAUSES)


@pytest.mark.parametrize(("panel", "lightest_first"), [(WAITING, True), (SELF_TIME, False)])
def test_the_light_row_is_the_one_that_the_question_speaks_of(panel, lightest_first):
    steps = BY_TITLE[panel.question]["fieldConfig"]["defaults"]["thresholds"]["steps"]
    light = [sum(bytes.fromhex(step["color"][1:])) for step in steps]
    assert light == sorted(light, reverse=lightest_first)
    assert [step["value"] for step in steps] == [None, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9]


def test_a_rate_of_what_is_recorded_every_so_often_has_two_points_to_go_by():
    for panel in ALL:
        for target in BY_TITLE[panel.question]["targets"]:
            assert target.get("interval") == (f"{RECORDED_SECONDS}s" if panel.is_recorded else None)
    recorded = [panel for panel in ALL if panel.is_recorded and "$window" in panel.promql]
    assert recorded


def test_few_ranks_are_shown_each(tmp_path):
    targets = BY_TITLE[MEMORY.question]["targets"]
    each = {f'{{kind="process", rank="{rank}"}}': rank + 1 for rank in range(MOST_SERIES)}
    _answered(tmp_path, _memory(MOST_SERIES), {targets[0]["expr"]: each, targets[1]["expr"]: {}})
    assert targets[0]["legendFormat"] == "rank {{rank}} ({{kind}})"


def test_many_ranks_are_summed_up(tmp_path):
    targets = BY_TITLE[MEMORY.question]["targets"]
    told = {f'kind="process", spread="{name}"': value for name, value in (("largest", 9), ("smallest", 1))}
    recorded = {f'zmon:job_rank_memory:spread{{job_id="ads", {labels}}}': value for labels, value in told.items()}
    spread = {f"{{{labels}}}": value for labels, value in told.items()}
    series = _memory(MOST_SERIES + 1) | recorded
    _answered(tmp_path, series, {targets[0]["expr"]: {}, targets[1]["expr"]: spread})
    assert targets[1]["legendFormat"] == "{{spread}} {{kind}}"


def test_rows_of_many_ranks_are_hosts(tmp_path):
    series = {f'zmon:rank_self_seconds:total{{job_id="ads", rank="{rank}"}}': "0+2" for rank in range(MOST_LABELS + 1)}
    series |= {f'zmon:job_host_own:max{{job_id="ads", host="n{host}"}}': own for host, own in enumerate((0.2, 0.9))}
    series |= {f'zmon:job_host:ranks{{job_id="ads", host="n{host}"}}': 16 + host for host in range(2)}
    each, hosts = (target["expr"] for target in BY_TITLE[SELF_TIME.question]["targets"])
    _answered(tmp_path, series, {each: {}, hosts: {'{host="n0"}': 0.2, '{host="n1"}': 0.9}})
    assert BY_TITLE[SELF_TIME.question]["targets"][1]["legendFormat"] == "{{host}}"


def test_a_finding_is_marked_with_whom_it_blames(tmp_path):
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
    _answered(tmp_path, series, {MARKS["Critical findings"]: marks, MARKS["Findings"]: {}})


def test_what_is_only_to_be_known_or_is_another_jobs_or_has_gone_is_not_marked(tmp_path):
    series = {
        'zmon_finding{job_id="ads", cause="a", severity="info"}': 1,
        'zmon_finding{job_id="other", cause="b", severity="critical"}': 1,
        'zmon_finding{job_id="ads", cause="c", severity="critical"}': 0,
        'zmon:job_activity:ranks{job_id="ads", activity="train"}': 4,
    }
    _answered(tmp_path, series, {promql: {} for promql in MARKS.values()})


def test_later_grafanas_mark_the_same():
    for dashboard in DASHBOARDS.values():
        for mark in dashboard["annotations"]["list"]:
            assert (mark["target"]["expr"], mark["target"]["interval"]) == (mark["expr"], mark["step"])


def _memory(num_ranks: int) -> dict[str, int]:
    """Rank 0 holds a byte, the next two; all are on one host."""
    held = {
        f'zmon:rank_memory:bytes{{job_id="ads", host="n1", kind="process", rank="{rank}"}}': rank + 1
        for rank in range(num_ranks)
    }
    return held | {'zmon:job_host:ranks{job_id="ads", host="n1"}': num_ranks}


def _answered(folder: Path, series: dict[str, int | str], expected: dict[str, dict[str, float]]) -> None:
    """Prometheus answers each question with these samples, of series that stay at these values; `0+2` grows."""
    tests = [
        {
            "expr": _filled(promql),
            "eval_time": "2m",
            "exp_samples": [{"labels": labels, "value": value} for labels, value in samples.items()],
        }
        for promql, samples in expected.items()
    ]
    input_series = [{"series": name, "values": f"{value}x20"} for name, value in series.items()]
    file = folder / "answered.yaml"
    test = {"interval": "10s", "input_series": input_series, "promql_expr_test": tests}
    file.write_text(yaml.safe_dump({"tests": [test]}))
    done = subprocess.run(["promtool", "test", "rules", file], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def _filled(promql: str) -> str:
    """As Grafana sends it; `$1` is Prometheus's own."""
    return re.sub(r"\$\{?([a-z_]+)\}?", lambda name: (BUILT_IN | CHOSEN)[name[1]], promql)


def _selectors() -> list[str]:
    """The series that a variable's values are labels of."""
    variables = [one for dashboard in DASHBOARDS.values() for one in dashboard["templating"]["list"][1:]]
    return [re.fullmatch(r"label_values\((.+), \w+\)", one["query"]["query"])[1] for one in variables]


def _parts(of: object) -> list[dict]:
    """Every object within."""
    if isinstance(of, list):
        return [part for one in of for part in _parts(one)]
    if not isinstance(of, dict):
        return []
    return [of, *(part for one in of.values() for part in _parts(one))]
