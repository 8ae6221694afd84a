"""Tests of the score of an intent and the outcome of an act, by what the job does afterwards."""

import pytest

from tests.build import NOW, killed, rank_state, snapshot
from tests.hub.acts.builds import intent, of_launch, stalled
from zmon.hub.acts.score import INIT_SECONDS, RELAUNCH_SECONDS, SCORE_SECONDS, Score, scores, with_score_or_outcome


def job(ranks, attempt=0, **changes):
    """Return the snapshot of a launch with these ranks."""
    return snapshot(*of_launch(ranks, attempt, **changes))


STALLED = stalled()
GOES_ON = job([rank_state(rank, step=101) for rank in range(4)])
SOME_GO_ON = job([*(rank_state(rank, step=101) for rank in range(3)), rank_state(3)])
CULPRIT_KILLED = job([killed(2), *map(rank_state, (0, 1, 3))])
VICTIM_KILLED = job([killed(1), *map(rank_state, (0, 2, 3))])
OVER = job([killed(rank) for rank in range(4)])
OVER_FOR_GOOD = job([killed(rank) for rank in range(4)], max_restarts=0)
# The hosts of ranks 2 and 3 do not answer: both ranks may still live.
REST_UNWATCHED = snapshot(*of_launch(map(killed, (0, 1))), unwatched=of_launch(map(rank_state, (2, 3))))
STARTS_AGAIN = job([rank_state(rank, step=0, steps=0, activity="init") for rank in range(4)], attempt=1)
STEPS_AGAIN = job([rank_state(rank, step=51, steps=1) for rank in range(4)], attempt=1)
PASSED = job([rank_state(rank, step=150, steps=100) for rank in range(4)], attempt=1)
LONG = SCORE_SECONDS + 1

OBSERVED = {  # the job, the seconds since the intent, and the score
    "still stalls": (STALLED, 1.0, ""),
    "stalls for long": (STALLED, LONG, "unclear"),
    "unknown for a moment": (None, 1.0, ""),
    "unknown for long": (None, LONG, "unclear"),
    "goes on": (GOES_ON, 1.0, "wrong"),
    "some ranks go on": (SOME_GO_ON, 1.0, ""),
    "its culprit was killed": (CULPRIT_KILLED, 1.0, "right"),
    "another rank was killed": (VICTIM_KILLED, 1.0, ""),
    "has ended": (OVER, 1.0, "right"),
    "the rest is unwatched": (REST_UNWATCHED, 1.0, ""),
    "the rest is unwatched for long": (REST_UNWATCHED, LONG, "unclear"),
    "starts again": (STARTS_AGAIN, 1.0, "right"),
    "has passed the step of the fault": (PASSED, 1.0, "right"),
}


@pytest.mark.parametrize("result", ["observed", "refused"])
@pytest.mark.parametrize(("scene", "seconds", "score"), OBSERVED.values(), ids=OBSERVED)
def test_intent_that_was_not_acted_upon_is_scored_by_what_followed(scene, seconds, score, result):
    later = with_score_or_outcome(intent(mode="observe", result=result), scene, NOW + seconds)
    assert (later.score, later.outcome) == (score, "")


@pytest.mark.parametrize(
    ("scene", "seconds", "score"),
    [
        pytest.param(OVER, 1.0, "", id="has ended"),
        pytest.param(STARTS_AGAIN, 1.0, "", id="starts again"),
        pytest.param(PASSED, 1.0, "wrong", id="has passed the step of the fault"),
        pytest.param(OVER, LONG, "right", id="ended long ago"),
        pytest.param(STARTS_AGAIN, LONG, "unclear", id="has started for long"),
    ],
)
def test_end_of_a_crash_loop_is_scored_once_time_has_shown_that_it_is_over(scene, seconds, score):
    loop = intent(act="stop_restarts", cause="crash_loop", result="observed")
    assert with_score_or_outcome(loop, scene, NOW + seconds).score == score


OF_A_RANK = {  # the job, the seconds since the act, and its outcome
    "still stalls": (STALLED, 1.0, ""),
    "stalls until a launch was due": (STALLED, RELAUNCH_SECONDS, "did_not_help"),
    "has ended": (OVER, 1.0, ""),
    "ended until a launch was due": (OVER, RELAUNCH_SECONDS, "did_not_help"),
    "ended for good": (OVER_FOR_GOOD, 1.0, "ended"),
    "starts again": (STARTS_AGAIN, RELAUNCH_SECONDS, ""),
    "starts again until its first step was due": (STARTS_AGAIN, INIT_SECONDS, "did_not_help"),
    "steps again in a new launch": (STEPS_AGAIN, 9.0, "steps_again"),
    "steps again in the same launch": (GOES_ON, 9.0, "steps_again"),
    "unknown for a moment": (None, 9.0, ""),
    "unknown until a launch was due": (None, RELAUNCH_SECONDS, ""),
    "unknown until its first step was due": (None, INIT_SECONDS, "unknown"),
    "the rest is unwatched": (REST_UNWATCHED, RELAUNCH_SECONDS, "did_not_help"),
}


@pytest.mark.parametrize("result", ["acted", "unanswered"])
@pytest.mark.parametrize(("scene", "seconds", "outcome"), OF_A_RANK.values(), ids=OF_A_RANK)
def test_act_on_a_rank_helps_if_the_job_steps_again(scene, seconds, outcome, result):
    later = with_score_or_outcome(intent(result=result), scene, NOW + seconds)
    assert (later.outcome, later.score) == (outcome, "")
    assert later.outcome_seconds == (seconds + 2.0 if outcome else None)  # the onset is 2 s before the intent


@pytest.mark.parametrize("act", ["end_job", "stop_restarts"])
@pytest.mark.parametrize(
    ("scene", "seconds", "outcome"),
    [
        pytest.param(OVER, 1.0, "", id="has ended"),
        pytest.param(OVER, RELAUNCH_SECONDS, "ended", id="nothing has started it again"),
        pytest.param(STALLED, RELAUNCH_SECONDS, "did_not_help", id="still stalls"),
        pytest.param(STARTS_AGAIN, RELAUNCH_SECONDS, "did_not_help", id="starts again"),
    ],
)
def test_act_on_a_job_helps_if_nothing_starts_it_again(scene, seconds, outcome, act):
    assert with_score_or_outcome(intent(act=act, result="acted"), scene, NOW + seconds).outcome == outcome


def test_known_score_or_outcome_does_not_change():
    for known in (intent(score="right"), intent(result="acted", outcome="ended"), intent(act="capture")):
        assert with_score_or_outcome(known, GOES_ON, NOW + LONG) == known


def test_scores_count_by_cause_what_zmon_did_not_do_itself():
    intents = [
        *(intent(score=score) for score in ("right", "right", "wrong", "unclear", "")),
        intent(result="acted", outcome="steps_again"),
        intent(act="capture"),
        intent(score="right", cause="compute_hang"),
    ]
    assert scores(intents) == {
        "rank_frozen": Score(right=2, wrong=1, unclear=1, open=1),
        "compute_hang": Score(right=1),
    }
