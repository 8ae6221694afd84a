"""Tests of the order of facts: what is certain, what is unknown, and how that follows from how each was observed."""

import pytest

from tests.build import agent_status, killed, raised, rank_state, snapshot, terminated, words
from zmon.job.facts import Earliest, FactKind, before, began_to_end, ended, facts_of, launcher_lead


def at(rank, ago, host="node-a", observed="stamped"):
    """Return the begin of the end of a rank that stamped its last words, or that an agent saw dead."""
    return began_to_end((raised if observed == "stamped" else killed)(rank, ago, host=host))


ORDERS = {
    "stamped on one host: exact": (at(0, 1.001), at(1, 1.0), True),
    "stamped at the same time": (at(0, 1.0), at(1, 1.0), None),
    "on two hosts, within the travel of a report": (at(0, 1.01), at(1, 1.0, "node-b"), None),
    "on two hosts, further apart": (at(0, 1.03), at(1, 1.0, "node-b"), True),
    "the second may have ended one look earlier": (at(0, 1.29), at(1, 1.0, observed="seen"), None),
    "the first ended more than a look earlier": (at(0, 1.31), at(1, 1.0, observed="seen"), True),
    "the first was dead when it was seen": (at(0, 1.01, observed="seen"), at(1, 1.0), True),
    "both were seen, within one look": (at(0, 1.29, observed="seen"), at(1, 1.0, observed="seen"), None),
    "both were seen, further apart": (at(0, 1.31, observed="seen"), at(1, 1.0, observed="seen"), True),
}


@pytest.mark.parametrize(("first", "second", "expected"), ORDERS.values(), ids=ORDERS)
def test_order_is_certain_only_as_far_as_the_times_are(first, second, expected):
    assert before(first, second) is expected
    assert before(second, first) is (expected and False)


def test_facts_that_one_cause_may_show_in_turn_have_no_order():
    assert before(at(0, 1.05), at(1, 1.0), spread=0.1) is None


@pytest.mark.parametrize("host", ["node-a", "node-b", "node-c"])
@pytest.mark.parametrize("ago", [0.9, 0.99, 1.0, 1.01, 2.0])
def test_earliest_of_many_says_what_a_comparison_with_each_of_them_says(host, ago):
    facts = [at(0, 1.0), at(1, 0.95, "node-b"), at(2, 1.02, observed="seen"), at(3, 0.91, "node-b")]
    fact = at(4, ago, host)
    assert Earliest(facts).precedes(fact) is any(before(each, fact) is True for each in facts)
    assert not Earliest([]).precedes(fact)


def test_rank_begins_to_end_with_its_last_words_and_ends_when_it_is_seen_dead():
    state = terminated(1, 1.0, last_words=words("signal", "SIGTERM", "line 3"), last_words_seconds=1.5)
    assert [(f.kind, f.earliest, f.latest) for f in (began_to_end(state), ended(state))] == [
        (FactKind.SIGNALLED, -1.5, -1.5),
        (FactKind.UNLOCKED, -1.3, -1.0),
    ]
    assert ended(state).text == "signal SIGTERM"


def test_living_rank_ends_with_its_last_words_or_else_when_it_began_to_leave():
    leaving = rank_state(1, leaving_seconds=2.0)
    with_words = rank_state(1, leaving_seconds=2.0, last_words=words("signal", "SIGTERM"), last_words_seconds=1.5)
    assert [(f.kind, f.earliest, f.latest) for f in map(ended, (leaving, with_words))] == [
        (FactKind.RAISED, -2.0, -2.0),
        (FactKind.SIGNALLED, -1.5, -1.5),
    ]


@pytest.mark.parametrize(
    ("launcher", "lead"),
    [
        pytest.param(None, None, id="it lives"),
        pytest.param(1.1, 0.1, id="one look earlier"),
        pytest.param(0.8, -0.2, id="a moment later"),
        pytest.param(0.6, None, id="long after"),
        pytest.param(62.0, None, id="long before"),
    ],
)
def test_launcher_has_to_do_with_the_end_only_within_a_time(launcher, lead):
    state = killed(0, 1.0, launcher_gone_seconds=launcher)
    assert launcher_lead(state) == (lead if lead is None else pytest.approx(lead))


def test_launcher_of_a_living_rank_leads_by_its_own_age():
    assert launcher_lead(rank_state(0, launcher_gone_seconds=0.5)) == 0.5


def test_every_kind_of_fact_is_known():
    ranks = (
        raised(0),
        terminated(1, launcher_gone_seconds=0.5),
        rank_state(2, stopped_seconds=3.0, unobserved_seconds=40.0),
        raised(3, last_words=words("exception", "torch.distributed.DistNetworkError")),
        killed(4, last_words=words("exit")),
    )
    silent = (agent_status("node-b", 9.0), agent_status("node-c", 9.0))
    job = snapshot(*ranks, agents=silent, unwatched=(rank_state(5, host="node-b"),))
    all_facts = [*facts_of(job, ranks)]
    facts = {fact.kind: fact for fact in all_facts}
    assert facts.keys() == set(FactKind)
    assert [fact.host for fact in all_facts if fact.kind is FactKind.SILENT] == ["node-b"]  # node-c has no rank
    assert facts[FactKind.SUSPENDED].latest == -40.0  # when the suspension began at the latest
