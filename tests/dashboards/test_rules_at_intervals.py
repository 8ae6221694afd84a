"""Tests of alerts and recorded series at the scrape intervals that a set of rules is made for.

Alerts are quiet if all is well, if a single scrape fails, and during what is routine. They fire in time, and not early.
Recorded rates have no gap.
"""

import pytest

from dashboards.intervals import CLUSTER, ONE_MACHINE, Intervals
from dashboards.rules.render import FILES
from tests.dashboards.scraped import AGENTS, Scraping, complaints_about_rules

SITE = Intervals(agents_seconds=30, hub_seconds=30)
AT_ALL_INTERVALS = pytest.mark.parametrize(
    "intervals", [ONE_MACHINE, CLUSTER, SITE, Intervals(2, 30), Intervals(60, 60)], ids=lambda intervals: str(intervals)
)
# Alerts that have fired; `%s` has the names of others that may, each after a bar.
FIRED = 'count_over_time(ALERTS{alertstate="firing", alertname!~"ZmonWatchdog%s"}[1h])'
LABELS = {  # of each alert that a test lets fire
    "ZmonHubDown": 'severity="warning"',
    "ZmonAgentDown": 'severity="warning", instance="node-2:9780"',
    "ZmonAgentsAbsent": 'severity="critical"',
    "ZmonLeaseOverdue": 'severity="critical", job_id="ads"',
}


def begin_of_fault(intervals):
    """Return a time at which a rate of every series is known."""
    return 30 + 5 * intervals.slowest.seconds


def missed(seconds, begin):
    """Return a function that is False during one scrape at or after `begin`."""
    return lambda now: not begin <= now < begin + seconds


def never(now):
    """Return False: a daemon that does not answer."""
    return False


def paused(begin, seconds):
    """Return the seconds by which a rank exceeds its lease that pauses for this time."""
    return lambda now: now - begin + 0.5 if begin <= now <= begin + seconds else 0.0


def complaints(folder, scraping, expected):
    """Return what promtool complains about after it evaluated the alerts."""
    return complaints_about_rules(folder, scraping, ["zmon.yaml"], scraping.intervals.evaluation_seconds, expected)


def fires(folder, alert, scraping, early, late, also=""):
    """Return complaints unless this alert is quiet at time `early`, fires at time `late`, and no other alert fires.

    `also` is an alert that fires as well.
    """
    query = f'max without (alertstate) (ALERTS{{alertstate="firing", alertname="{alert}"}})'
    firing = {f'{{alertname="{alert}", {LABELS[alert]}}}': 1}
    others = FIRED % f"|{alert}|{also}"
    return complaints(folder, scraping, {(query, early): {}, (query, late): firing, (others, late): {}})


@AT_ALL_INTERVALS
def test_alerts_are_quiet_if_all_is_well(tmp_path, intervals):
    until = 300 + 5 * intervals.slowest.seconds
    assert complaints(tmp_path, Scraping(intervals, until), {(FIRED % "", until): {}}) == ""


@AT_ALL_INTERVALS
def test_alerts_are_quiet_if_single_scrapes_fail(tmp_path, intervals):
    begin = begin_of_fault(intervals)
    until = begin + 60 + 6 * intervals.slowest.seconds
    agent = missed(intervals.agents_seconds, begin)
    hub = missed(intervals.hub_seconds, begin + 30 + intervals.slowest.seconds)
    assert complaints(tmp_path, Scraping(intervals, until, agent=agent, hub=hub), {(FIRED % "", until): {}}) == ""


@AT_ALL_INTERVALS
def test_hub_that_dies_is_reported_in_time(tmp_path, intervals):
    begin = begin_of_fault(intervals)
    hub = intervals.hub
    pause = hub.window(20) + intervals.pending(hub, 10)
    early = begin + pause - 2 * hub.seconds - 1
    late = begin + pause + 2 * intervals.evaluation_seconds
    scraping = Scraping(intervals, late, hub=lambda now: now < begin)
    assert fires(tmp_path, "ZmonHubDown", scraping, early, late) == ""


@AT_ALL_INTERVALS
@pytest.mark.parametrize(
    ("who", "alert", "pause_seconds", "also"),
    [("last_agent", "ZmonAgentDown", 20, ""), ("agent", "ZmonAgentsAbsent", 30, "ZmonAgentDown")],
)
def test_agents_that_die_are_reported_in_time(tmp_path, intervals, who, alert, pause_seconds, also):
    begin = begin_of_fault(intervals)
    agents = intervals.agents
    pause = intervals.pending(agents, pause_seconds)
    late = begin + agents.seconds + pause + 2 * intervals.evaluation_seconds
    scraping = Scraping(intervals, late, **{who: lambda now: now < begin})
    assert fires(tmp_path, alert, scraping, begin + pause - 1, late, also) == ""


@AT_ALL_INTERVALS
def test_overdue_ranks_without_a_hub_are_reported_in_time(tmp_path, intervals):
    begin = begin_of_fault(intervals)
    pause = intervals.pending(intervals.slowest, 20 + intervals.slowest.seconds + intervals.evaluation_seconds)
    late = begin + intervals.agents_seconds + pause + 2 * intervals.evaluation_seconds
    scraping = Scraping(intervals, late, hub=never, overdue=lambda now: max(0.0, now - begin))
    assert fires(tmp_path, "ZmonLeaseOverdue", scraping, begin + pause - 1, late, also="ZmonHubDown") == ""


@AT_ALL_INTERVALS
def test_overdue_ranks_are_quiet_while_a_hub_that_sees_them_works_and_restarts(tmp_path, intervals):
    begin = begin_of_fault(intervals)
    until = begin + 120 + 3 * intervals.slowest.seconds
    restart = missed(max(6, intervals.hub_seconds), begin + 40 + intervals.hub_seconds)
    scraping = Scraping(intervals, until, hub=restart, overdue=lambda now: min(250.0, max(0.0, now - begin)))
    assert complaints(tmp_path, scraping, {(FIRED % "", until): {}}) == ""


@AT_ALL_INTERVALS
@pytest.mark.parametrize("seconds", [15, 20])
def test_pause_that_heals_is_quiet_without_a_hub(tmp_path, intervals, seconds):
    scrape = intervals.agents_seconds * (30 // intervals.agents_seconds + 5) - 1  # the pause has just begun
    until = scrape + 60 + 4 * intervals.slowest.seconds
    scraping = Scraping(intervals, until, hub=never, overdue=paused(scrape, seconds))
    assert complaints(tmp_path, scraping, {(FIRED % "|ZmonHubDown", until): {}}) == ""


@AT_ALL_INTERVALS
def test_recorded_rates_have_no_gap_although_a_scrape_fails(tmp_path, intervals):
    every = intervals.recorded.seconds
    num_last = 12
    until = 20 * every
    agent, hub = (missed(s, until - 6 * every) for s in (intervals.agents_seconds, intervals.hub_seconds))
    scraping = Scraping(intervals, until, agent=agent, hub=hub)
    values = {
        "zmon:job_samples:rate": ('job_id="ads"', 128.0),
        "zmon:job_step_seconds:median": ('job_id="ads"', 0.5),
        "zmon:job_host_own:max": ('job_id="ads", host="node-1"', 0.75),
        "zmon:host_cpu_busy:ratio": ('host="node-1"', 0.5),
        "zmon:job_time:ratio": ('job_id="ads", cause="forward"', 1.0),
    }
    expected = {}
    for name, (labels, value) in values.items():
        expected[f"round({name}{{{labels}}}, 0.01)", until] = {f"{{{labels}}}": value}
        last = f"{num_last * every - 1}s"
        expected[f"count_over_time({name}{{{labels}}}[{last}])", until] = {f"{{{labels}}}": num_last}
    assert complaints_about_rules(tmp_path, scraping, FILES, every, expected) == ""


@AT_ALL_INTERVALS
def test_share_of_waiting_is_recorded_at_each_interval(tmp_path, intervals):
    """It reads a gauge as well, so it would be unknown while an agent does not answer."""
    every = intervals.recorded.seconds
    hosts = {f'{{job_id="ads", host="{host}"}}': 0.25 for host in AGENTS}
    expected = {("round(zmon:job_host_waiting:min, 0.01)", 12 * every): hosts}
    expected[f"count(count_over_time(zmon:job_host_waiting:min[{6 * every - 1}s]) == 6)", 12 * every] = {"{}": 2}
    assert complaints_about_rules(tmp_path, Scraping(intervals, 12 * every), ["panels.yaml"], every, expected) == ""
