"""Tests of the labels of jobs on alerts: a site declares them, a job chooses among them, and an alert keeps them."""

import json
from dataclasses import replace

import pytest

from tests.build import NOW, finding
from tests.hub.fakes import FakeAgent, frozen, hub_over, poll
from zmon.errors import UsageError
from zmon.hub.alert_labels import AlertLabels, read_alert_labels
from zmon.hub.journal import Journal

SERIES = 'zmon_finding{cause="rank_frozen",detector="stall",host="node-a",job_id="job",rank="2",%s}'
DECLARED = {"team": ["ads", "search.web"], "tier": ["hero"], "owner": "[a-z]+"}
SITE = read_alert_labels(DECLARED, "alert_labels")

ALL_DECLARED = {"team": "ads", "tier": "hero", "owner": "ann"}
PASSED = {  # the labels of a job, and those that its alerts have
    "all labels are declared": (ALL_DECLARED, ALL_DECLARED),
    "in the order of the declaration": ({"owner": "ann", "tier": "hero"}, {"tier": "hero", "owner": "ann"}),
    "another case": ({"tier": "HERO"}, {}),
    "a line break": ({"tier": "hero\n"}, {}),
    "a pattern": ({"tier": "hero|x"}, {}),
    "a value in a list is no pattern": ({"team": "searchXweb"}, {}),
    "no match of the whole value": ({"owner": "ann1", "team": ""}, {}),
    "undeclared labels": ({"hero": "true", "severity": "critical"}, {}),
    "no labels": ({}, {}),
}


@pytest.mark.parametrize(("labels", "expected"), PASSED.values(), ids=PASSED)
def test_only_declared_values_pass(labels, expected):
    passed = SITE.accepted(labels)
    assert passed == expected
    assert list(passed) == [name for name in DECLARED if name in expected]


def test_empty_value_is_left_out_even_if_the_pattern_matches_it():
    assert read_alert_labels({"owner": ".*"}, "alert_labels").accepted({"owner": ""}) == {}


@pytest.mark.parametrize("settings", [None, {}])
def test_alerts_have_no_labels_unless_a_site_declares_some(settings):
    assert read_alert_labels(settings, "alert_labels") == AlertLabels()
    assert AlertLabels().accepted({"tier": "hero"}) == {}


@pytest.mark.parametrize(
    ("settings", "part"),
    [
        ("tier", "cannot set alert_labels: it is 'tier', but it needs names with values"),
        (["tier"], "cannot set alert_labels: it is ['tier'], but it needs names"),
        (dict.fromkeys("abcde", "x"), "cannot set alert_labels: it has 5 labels, and at most 4"),
        ({"severity": "x"}, "severity is a label of zmon or of Prometheus"),
        ({"__name__": "x"}, "'__name__' is no name of a label"),
        ({"my-team": "x"}, "'my-team' is no name of a label"),
        ({True: "x"}, "True is no name of a label"),
        ({"zmon_docs": "x"}, "begin with zmon_"),
        ({"owner": "("}, "cannot set alert_labels.owner: '(' is no regular expression"),
        ({"tier": []}, "cannot set alert_labels.tier: it is [], but it needs a list of texts or one pattern"),
        ({"tier": [True]}, "cannot set alert_labels.tier: it is [True]"),
        ({"tier": [""]}, "cannot set alert_labels.tier: it is ['']"),
        ({"tier": 1}, "cannot set alert_labels.tier: it is 1"),
        ({"tier": None}, "cannot set alert_labels.tier: it is None"),
    ],
)
def test_wrong_declaration_is_refused_in_one_line(settings, part):
    with pytest.raises(UsageError) as refused:
        read_alert_labels(settings, "alert_labels")
    assert part in str(refused.value)
    assert "\n" not in str(refused.value)


def labels_in(path):
    """Return the labels of all jobs in the file of a journal."""
    return list(Journal(path).labels_of_jobs().values())


@pytest.mark.parametrize("opening", [{"tier": "hero"}, {}], ids=["hero", "without labels"])
def test_labels_are_those_of_the_opening_until_the_end(journal, journal_path, opening):
    journal.open_or_update(finding(), NOW, job_labels=opening)
    for labels in ({}, {"tier": "normal"}, {"tier": "hero", "owner": "ann"}):
        journal.open_or_update(finding(severity="critical"), NOW + 1, job_labels=labels)
        assert labels_in(journal_path) == list(journal.labels_of_jobs().values()) == [opening]


def test_line_without_labels_is_that_of_earlier_versions(journal, journal_path):
    journal.open_or_update(finding(), NOW)
    line = journal_path.read_bytes()
    assert json.loads(line)["published"] == {"cause": "rank_frozen", "ranks": [2], "hosts": ["node-a"]}
    assert labels_in(journal_path) == [{}]
    assert journal_path.read_bytes() == line  # it is read, and kept as it is


def labelled(*states, **labels):
    """Return ranks with these labels; their job stalls."""
    return [replace(rank, labels=labels) for rank in states]


async def test_alert_keeps_its_labels_although_job_and_site_change_theirs(tmp_path):
    agent = FakeAgent(*labelled(*frozen(), tier="hero", owner="Ann", team="ads"))
    expected = SERIES % 'severity="critical",team="ads",tier="hero"'
    async with agent.serve():
        async with hub_over(tmp_path, agent, alert_labels=SITE) as hub_client:
            await poll(hub_client.findings)
            assert await hub_client.metric(expected) == [1.0]
            agent.ranks = labelled(*frozen(), tier="normal", owner="ann")
            await hub_client.passes(2)
            assert await hub_client.metric("zmon_finding{") == await hub_client.metric(expected) == [1.0]
        async with hub_over(tmp_path, agent) as hub_client:  # it declares nothing any more
            await hub_client.passes(2)
            assert await hub_client.metric("zmon_finding{") == await hub_client.metric(expected) == [1.0]


async def test_two_hubs_publish_the_labels_of_the_lead_rank(tmp_path):
    first, *others = sorted(frozen(), key=lambda rank: rank.rank)
    agent = FakeAgent(*labelled(*others, team="ads"), *labelled(first, tier="hero"))
    expected = SERIES % 'severity="critical",tier="hero"'
    async with agent.serve():
        for name in ("a", "b"):
            (tmp_path / name).mkdir()
            async with hub_over(tmp_path / name, agent, alert_labels=SITE) as hub_client:
                await poll(hub_client.findings)
                assert await hub_client.metric("zmon_finding{") == await hub_client.metric(expected) == [1.0]
