"""Tests of a hub that is killed at any step of an act: it asks no agent twice, and none before its line is on disk."""

from tests.hostile.crashing import outcome_of


def test_kill_at_any_step_asks_nobody_twice_and_nobody_before_the_intent_is_written():
    outcome = outcome_of("intent_crash_points", timeout=120.0)
    assert outcome["problems"] == []
    assert outcome["points"] >= 8
    assert outcome["requests"] == 1
