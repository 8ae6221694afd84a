"""Tests of the check of scrape intervals: scrapes that are rarer than the loaded rules need are inert."""

import pytest
import yaml

from dashboards.intervals import CLUSTER, ONE_MACHINE
from dashboards.rules.render import rendered
from tests.doctor.scene import healthy, rules, target
from zmon.doctor.prometheus import scrape_intervals
from zmon.doctor.prometheus_state import Rule, recorded_rules
from zmon.schema.scraping import MADE_FOR, made_for


def scraped(agent="2s", hub="2s", **changes):
    """Return the checks of a Prometheus that scrapes an agent and a hub at these intervals."""
    targets = (target(scrape_interval=agent), target("zmon-hub", scrape_interval=hub))
    return scrape_intervals(healthy(targets=targets, **changes))


@pytest.mark.parametrize("intervals", [ONE_MACHINE, CLUSTER])
def test_rules_say_which_intervals_they_are_made_for(intervals):
    (group,) = [
        group for group in yaml.safe_load(rendered(intervals)["zmon.yaml"])["groups"] if group["name"] == "zmon-records"
    ]
    loaded = rules()[:1]
    loaded[0].rules[:] = [
        Rule(rule["record"], "recording", rule["expr"], "ok", labels=rule.get("labels", {})) for rule in group["rules"]
    ]
    assert made_for(recorded_rules(loaded)) == {"agent": intervals.agents_seconds, "hub": intervals.hub_seconds}


@pytest.mark.parametrize("interval", ["2s", "500ms", "1s", ""])
def test_scrapes_that_are_often_enough_are_quiet(interval):
    assert scraped(agent=interval, hub=interval) == []
    assert scraped(agent="15s", groups=rules(15, 2)) == []
    other, down = target("zmon-alertmanager", scrape_interval="1m"), target(scrape_interval="1m", health="down")
    assert scrape_intervals(healthy(targets=(target(), other, down))) == []


TRAINING = target("training", scrape_interval="30s")
SLOW = {  # changes of a healthy Prometheus, and parts of the result and of the next step
    "agent, rules of one machine": (
        {"targets": (target(scrape_interval="15s"), target("zmon-hub"))},
        (
            "agents every 15 s, but the loaded rules are made for 2 s",
            "`python -m dashboards.rules --agents 15s --hub 2s --out DIR`",
        ),
    ),
    "hub, rules of a cluster": (
        {"targets": (target(scrape_interval="15s"), target("zmon-hub", scrape_interval="30s")), "groups": rules(15, 2)},
        ("hubs every 30 s, but the loaded rules are made for 2 s", "--agents 15s --hub 30s"),
    ),
    "both": (
        {"targets": (target(scrape_interval="1m"), target("zmon-hub", scrape_interval="2500ms"))},
        ("agents every 60 s", "hubs every 2.5 s", "--agents 60s --hub 3s"),
    ),
    "slowest agent": (
        {"targets": (target(), target("train-zmon-agent", scrape_interval="20s"), target("zmon-hub"))},
        ("agents every 20 s",),
    ),
    "no target of a hub": (
        {"targets": (target(scrape_interval="30s"),), "groups": rules(15, 5)},
        ("agents every 30 s", "--agents 30s --hub 5s"),
    ),
    "hub of another job name": (
        {"targets": (target(), TRAINING), "hubs": frozenset({("training", "training:1")})},
        ("hubs every 30 s",),
    ),
}


@pytest.mark.parametrize(("changes", "parts"), SLOW.values(), ids=SLOW)
def test_scrapes_that_are_too_rare_are_one_check_with_one_command(changes, parts):
    (check,) = scrape_intervals(healthy(**changes))
    assert (check.name, check.armed) == ("scrape interval", False)
    assert all(part in f"{check.result} {check.next_step}" for part in parts)


def test_scrapes_for_which_no_rules_can_be_made_get_no_such_command():
    (check,) = scraped(agent="2m")
    assert check.next_step == "Set scrape_interval to 2s (agents)."


def test_rules_that_do_not_record_their_interval_are_quiet():
    """The check of the rules reports them."""
    old = rules()
    for group in old:
        group.rules[:] = [rule for rule in group.rules if rule.name != MADE_FOR]
    assert made_for(recorded_rules(old)) == {}
    assert scraped(agent="30s", groups=old) == []


def test_shorter_interval_of_two_sets_of_rules_counts():
    assert made_for(recorded_rules((*rules(15, 2), *rules(2, 2)))) == {"agent": 2, "hub": 2}
