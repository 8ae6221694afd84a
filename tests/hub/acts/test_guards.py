"""Tests of the guards of acts: each refuses, and says why."""

from dataclasses import replace

import pytest

from tests.build import NOW, rank_state, snapshot
from tests.hub.acts.builds import intent, of_launch, stalled
from zmon.hub.acts.guards import NEEDED_RIGHT, Site, refusals, storm_reason, unproven_reason
from zmon.hub.acts.score import Score

ONE_ACT = ": one act in 10 minutes, then it is decided again"
ACTED = intent(result="acted")
JOB_OF_64 = snapshot(*of_launch([rank_state(rank, world_size=64) for rank in range(64)]))


def refused(intent_, scene=None, **site):
    """Return the reasons against an intent; by default the job stalls, and the site has no other intents."""
    return [*refusals(intent_, scene or stalled(), Site(**{"intents": (), **site}))]


def test_one_stopped_rank_of_a_watched_job_is_not_refused():
    assert refused(intent()) == []


REFUSED = {  # changes of the intent, the job (None: it stalls, with all ranks watched), the site, and the reason
    "all acts are stopped": ({}, None, {"stops": {"all": "a storm"}}, "acts are stopped (all): a storm"),
    "its rule is stopped":
        ({}, None, {"stops": {"rule-frozen": "it did not help"}}, "acts are stopped (rule-frozen)"),
    "the clock was set": ({}, None, {"seconds_since_clock_set": 3.0}, "the clock of the hub's host was set 3 s ago"),
    "a rank is missing":
        ({}, replace(stalled(), missing=(3,), ranks=stalled().ranks[:3]), {}, "1 rank of 4 are not watched"),
    "a rank is unwatched":
        ({}, replace(stalled(), unwatched=stalled().ranks[3:], ranks=stalled().ranks[:3]), {}, "are not watched"),
    "an act less than ten minutes ago":
        ({"time": NOW + 599}, None, {"intents": (ACTED,)}, f"frozen acted on this job 599 s ago{ONE_ACT}"),
    "an act without an answer":
        ({}, None, {"intents": (intent(result="unanswered"),)}, f"frozen acted on this job 0 s ago{ONE_ACT}"),
    "no culprit": ({"ranks": ()}, None, {}, "the finding names no rank"),
    "most ranks are culprits": ({"ranks": (0, 1, 2)}, None, {}, "3 of 4 ranks are at fault"),
    "five culprits of many ranks": ({"ranks": tuple(range(5))}, JOB_OF_64, {}, "5 of 64 ranks are at fault"),
}  # fmt: skip


@pytest.mark.parametrize(("changes", "scene", "site", "message"), REFUSED.values(), ids=REFUSED)
def test_guards_refuse_with_the_reason(changes, scene, site, message):
    (reason,) = refused(intent(**changes), scene, **site)
    assert message in reason


NOT_REFUSED = {  # changes of the intent, and the site
    "another rule is stopped": ({}, {"stops": {"rule-other": "it did not help"}}),
    "the clock was set a minute ago": ({}, {"seconds_since_clock_set": 61.0}),
    "an act ten minutes ago": ({"time": NOW + 600}, {"intents": (ACTED,)}),
    "intents that were not acted on": ({}, {"intents": (intent(result="observed"), intent(result="refused"))}),
    "an act on another job": ({}, {"intents": (intent(result="acted", job_id="another"),)}),
    "a capture after the clock was set": ({"act": "capture", "ranks": ()}, {"seconds_since_clock_set": 1.0}),
    "the end of a job without a culprit": ({"act": "end_job", "ranks": ()}, {}),
    "half of the ranks are culprits": ({"ranks": (0, 1)}, {}),
}


@pytest.mark.parametrize(("changes", "site"), NOT_REFUSED.values(), ids=NOT_REFUSED)
def test_intent_that_no_guard_is_about_is_not_refused(changes, site):
    assert refused(intent(**changes), **site) == []


SCORES = {  # the score of the cause, the override of the rule, and whether it may act
    "as many right intents as needed": (Score(right=NEEDED_RIGHT), "", True),
    "beside unclear and open ones": (Score(right=NEEDED_RIGHT, unclear=50, open=3), "", True),
    "one right intent too few": (Score(right=NEEDED_RIGHT - 1), "", False),
    "a wrong intent": (Score(right=500, wrong=1), "", False),
    "no intents": (Score(), "", False),
    "an override": (Score(wrong=7), "ann: trial cluster", True),
}


@pytest.mark.parametrize(("score", "override", "may_act"), SCORES.values(), ids=SCORES)
def test_rule_acts_only_if_intents_of_its_cause_were_right_or_somebody_answers_for_it(score, override, may_act):
    reason = unproven_reason(intent(), override, Site((), {"rank_frozen": score}))
    assert (reason == "") == may_act
    if reason:
        assert f"has {score.right} right and {score.wrong} wrong" in reason


def of_other_jobs(number, host="node-a", **changes):
    """Return an intent for each of this number of other jobs."""
    return tuple(intent(job_id=f"job-{n}", hosts=(host.format(n),), **changes) for n in range(number))


@pytest.mark.parametrize(
    ("earlier", "changes", "is_storm"),
    [
        pytest.param((), {}, False, id="one"),
        pytest.param(of_other_jobs(1), {}, False, id="two jobs"),
        pytest.param(of_other_jobs(2), {}, True, id="three jobs"),
        pytest.param((), {"hosts": ("node-a", "node-b", "node-c")}, True, id="three hosts of one job"),
        pytest.param(of_other_jobs(1, "node-{}"), {"hosts": ("node-x", "node-y")}, True, id="three hosts"),
        pytest.param(of_other_jobs(2), {"time": NOW + 61}, False, id="more than a minute later"),
        pytest.param(of_other_jobs(5, mode="observe"), {}, False, id="observed"),
        pytest.param(of_other_jobs(5, act="capture"), {}, False, id="captured"),
    ],
)
def test_many_jobs_or_hosts_within_a_minute_are_a_storm(earlier, changes, is_storm):
    last = intent(**changes)
    assert bool(storm_reason([*earlier, last], last.time)) == is_storm
