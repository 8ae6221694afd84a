"""Tests of the order of facts: what is certain, what is unknown, and how that follows from how each was observed."""

import pytest

from tests.build import agent_status, killed, raised, rank_state, snapshot, terminated, words
from zmon.job.facts import Earliest, FactKind, before, began_to_end, ended, facts_of, launcher_lead


def stamped_end(rank, ago, host="node-a"):
    """Return the fact that a rank left its last words `ago` seconds ago, by its own stamp."""
    return began_to_end(raised(rank, ago, host=host))


def seen_end(rank, ago):
    """Return the fact that an agent saw a rank dead `ago` seconds ago."""
    return began_to_end(killed(rank, ago))


ORDERS = {  # LOOK_SECONDS is 0.3, ALIGNED_SECONDS is 0.02
    "stamped on one host: exact": (stamped_end(0, 1.001), stamped_end(1, 1.0), True),
    "stamped at the same time": (stamped_end(0, 1.0), stamped_end(1, 1.0), None),
    "on two hosts, within the travel of a report": (stamped_end(0, 1.01), stamped_end(1, 1.0, "node-b"), None),
    "on two hosts, further apart": (stamped_end(0, 1.03), stamped_end(1, 1.0, "node-b"), True),
    "the second may have ended one look earlier": (stamped_end(0, 1.29), seen_end(1, 1.0), None),
    "the first ended more than a look earlier": (stamped_end(0, 1.31), seen_end(1, 1.0), True),
    "the first was dead when it was seen": (seen_end(0, 1.01), stamped_end(1, 1.0), True),
    "both were seen, within one look": (seen_end(0, 1.29), seen_end(1, 1.0), None),
    "both were seen, further apart": (seen_end(0, 1.31), seen_end(1, 1.0), True),
}


@pytest.mark.parametrize(("first", "second", "expected"), ORDERS.values(), ids=ORDERS)
def test_two_facts_have_an_order_only_if_their_times_cannot_overlap(first, second, expected):
    assert before(first, second) is expected
    assert before(second, first) is (False if expected else None)


@pytest.mark.parametrize(("spread", "expected"), [(0.04, True), (0.1, None)])
def test_facts_within_the_spread_of_one_cause_have_no_order(spread, expected):
    assert before(stamped_end(0, 1.05), stamped_end(1, 1.0), spread) is expected


@pytest.mark.parametrize("host", ["node-a", "node-b", "node-c"])
@pytest.mark.parametrize("ago", [0.9, 0.99, 1.0, 1.01, 2.0])
def test_earliest_precedes_a_fact_if_any_of_its_facts_does(host, ago):
    facts = [stamped_end(0, 1.0), stamped_end(1, 0.95, "node-b"), seen_end(2, 1.02), stamped_end(3, 0.91, "node-b")]
    fact = stamped_end(4, ago, host)
    assert Earliest(facts).precedes(fact) is any(before(other, fact) is True for other in facts)
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
    ("launcher_gone", "lead"),
    [
        pytest.param(None, None, id="it lives"),
        pytest.param(1.1, 0.1, id="0.1 s before the rank"),
        pytest.param(0.8, -0.2, id="0.2 s after the rank"),
        pytest.param(0.6, None, id="0.4 s after the rank is too late"),
        pytest.param(62.0, None, id="61 s before the rank is too early"),
    ],
)
def test_launcher_has_a_lead_only_if_it_ended_near_the_rank(launcher_gone, lead):
    state = killed(0, 1.0, launcher_gone_seconds=launcher_gone)
    assert launcher_lead(state) == (lead if lead is None else pytest.approx(lead))


def test_launcher_of_a_living_rank_leads_by_its_own_age():
    assert launcher_lead(rank_state(0, launcher_gone_seconds=0.5)) == 0.5


def test_facts_of_a_job_have_every_kind():
    ranks = (
        raised(0),
        terminated(1, launcher_gone_seconds=0.5),
        rank_state(2, stopped_seconds=3.0, unobserved_seconds=40.0),
        raised(3, last_words=words("exception", "torch.distributed.DistNetworkError")),
        killed(4, last_words=words("exit")),
    )
    job = snapshot(*ranks, agents=(agent_status("node-b", 9.0),), unwatched=(rank_state(5, host="node-b"),))
    assert {fact.kind for fact in facts_of(job, ranks)} == set(FactKind)


def test_silent_agent_without_a_rank_of_the_job_gives_no_fact():
    silent = (agent_status("node-b", 9.0), agent_status("node-c", 9.0))
    job = snapshot(agents=silent, unwatched=(rank_state(5, host="node-b"),))
    assert [(fact.kind, fact.host) for fact in facts_of(job, ())] == [(FactKind.SILENT, "node-b")]


def test_suspension_began_after_the_last_progress_and_at_the_latest_its_length_ago():
    state = rank_state(0, state_seconds=45.0, unobserved_seconds=40.0)
    (fact,) = facts_of(snapshot(state), [state])
    assert (fact.kind, fact.earliest, fact.latest) == (FactKind.SUSPENDED, -45.0, -40.0)
