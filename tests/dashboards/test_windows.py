"""Tests of the windows and pauses in rules and charts: they are long enough for the scrape intervals."""

import re

import pytest

from dashboards.intervals import CLUSTER, ONE_MACHINE, Intervals
from dashboards.panels import ALL
from dashboards.panels.panel import is_of_hub
from dashboards.rules.render import FILES, rendered
from tests.dashboards.sampling import DAEMONS, SETS, groups, sampling_seconds
from tests.places import REPOSITORY
from zmon.schema.scraping import LONGEST_SECONDS, MADE_FOR, duration_seconds

RULES = {ONE_MACHINE: REPOSITORY / "dashboards" / "rules", CLUSTER: REPOSITORY / "helm" / "zmon" / "files" / "rules"}
RANGE = re.compile(r"\b([a-z_]\w*(?::\w+)*)(?:\{[^}]*\})?\[(\w+)\]")  # a series and its window
FUNCTION_OF_RANGE = re.compile(r"\b(\w+)\(([a-z_]\w*(?::\w+)*)(?:\{[^}]*\})?\[\$window\]")
TWO_POINTS = ("rate", "increase", "changes")


def without_strings(promql: str) -> str:
    """Return PromQL with empty label values, which may contain brackets."""
    return re.sub(r'"(?:[^"\\]|\\.)*"', '""', promql)


def ranges(promql: str) -> list[tuple[str, float]]:
    """Return each range selector: the name of its series and the seconds of its window."""
    promql = without_strings(promql)
    selectors = [(name, duration_seconds(window)) for name, window in RANGE.findall(promql)]
    assert len(selectors) == promql.count("["), promql
    return selectors


def rules(intervals: Intervals) -> list[tuple[dict, int]]:
    """Return each rule, with the interval of its group in seconds."""
    return [(rule, int(duration_seconds(group["interval"]))) for group in groups(intervals) for rule in group["rules"]]


@pytest.mark.parametrize("intervals", RULES, ids=["one machine", "cluster"])
def test_rule_files_equal_generated_rules(intervals):
    written = {name: (RULES[intervals] / name).read_text(encoding="utf-8") for name in FILES}
    assert written == rendered(intervals), f"Run `make generate` and commit {RULES[intervals]}."


def test_chart_has_all_rule_files_and_nothing_else():
    """The chart makes an object of the Prometheus operator from each file, and a file of tests is none."""
    assert {file.name for file in RULES[CLUSTER].iterdir()} == set(FILES)


def test_every_metric_is_of_the_hub_or_of_agents():
    assert all(DAEMONS.values())
    assert {name for name in DAEMONS if is_of_hub(name)} == {name for name in DAEMONS if DAEMONS[name] == {"hub"}}


@pytest.mark.parametrize("intervals", SETS)
def test_window_of_a_rule_is_at_least_four_intervals_of_its_series(intervals):
    seconds = sampling_seconds(intervals)
    windows = [(name, window) for rule, _ in rules(intervals) for name, window in ranges(rule["expr"])]
    assert len(windows) > 30
    assert [(name, window) for name, window in windows if window < 4 * seconds[name]] == []


@pytest.mark.parametrize("intervals", SETS)
def test_in_flight_seconds_are_divided_by_the_window_of_the_rate_beside_them(intervals):
    (expr,) = [rule["expr"] for rule, _ in rules(intervals) if rule.get("record") == "zmon:job_host_waiting:min"]
    ((_, window),) = ranges(expr)
    assert f"zmon:rank_in_flight:seconds / {window:g}," in expr


@pytest.mark.parametrize("intervals", SETS)
def test_alert_is_pending_for_two_scrapes_and_an_evaluation(intervals):
    seconds = sampling_seconds(intervals)
    pauses, needed = {}, {}
    for rule, evaluation in rules(intervals):
        if "for" in rule:
            names = re.findall(r"\b(?:zmon[_:][\w:]+|up\b)", without_strings(rule["expr"]))
            pauses[rule["alert"]] = duration_seconds(rule["for"])
            needed[rule["alert"]] = 2 * max(seconds[name] for name in names) + evaluation
    assert set(pauses) == {
        "ZmonLeaseOverdue", "ZmonBoxUnreadable", "ZmonConfigReloadFailed", "ZmonJobsLeftOut", "ZmonSeriesLeftOut",
        "ZmonAgentDown", "ZmonAgentsAbsent", "ZmonSamplesMissing", "ZmonHubDown", "ZmonShardDown",
    }  # fmt: skip
    assert {alert: pause for alert, pause in pauses.items() if pause < needed[alert]} == {}


@pytest.mark.parametrize("intervals", SETS)
def test_rules_and_their_heads_say_what_they_are_made_for(intervals):
    made_for = {
        rule["labels"]["daemon"]: rule["expr"] for rule, _ in rules(intervals) if rule.get("record") == MADE_FOR
    }
    assert made_for == {"agent": f"vector({intervals.agents_seconds})", "hub": f"vector({intervals.hub_seconds})"}
    for text in rendered(intervals).values():
        head = " ".join(text.partition("\n\n")[0].replace("\n# ", " ").split())
        assert f"agents that are scraped every {intervals.agents_seconds} s or more often" in head
        assert f"hubs that are scraped every {intervals.hub_seconds} s or more often" in head


def _needed_samples(function: str, series: str) -> int:
    """Return the samples in a window: a rate needs four of a scraped series and two of a recorded one, a mean one."""
    if function in TWO_POINTS:
        return 2 if series.startswith("zmon:") else 4
    return 1


@pytest.mark.parametrize("intervals", SETS)
def test_window_of_a_chart_has_the_samples_that_its_function_needs(intervals):
    seconds = sampling_seconds(intervals)
    num_selectors = 0
    for panel in ALL:
        window = intervals.chart_window(panel.source)
        for promql in (panel.promql, panel.summary_promql):
            selectors = FUNCTION_OF_RANGE.findall(without_strings(promql.replace("$of_host", "")))
            assert len(selectors) == promql.count("[$window]")
            num_selectors += len(selectors)
            for function, name in selectors:
                assert window >= _needed_samples(function, name) * seconds[name], (panel.key, name)
    assert num_selectors > 30


@pytest.mark.parametrize("seconds", [0, LONGEST_SECONDS + 1])
def test_no_rules_are_made_for_intervals_out_of_range(seconds):
    for agents, hub in ((seconds, 2), (2, seconds)):
        with pytest.raises(ValueError, match=f"must be 1 s to 60 s: {seconds} s"):
            Intervals(agents, hub)
