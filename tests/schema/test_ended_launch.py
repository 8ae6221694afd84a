"""Tests of the texts of a launch that ended: its steps, and its reason with what followed."""

import msgspec
import pytest

from tests.build import NOW, finding, killed, snapshot
from zmon.job.outcome import ended_launch
from zmon.schema.ended_launch import Restart

KILLED = snapshot(*(killed(rank, 30.0, max_restarts=3) for rank in range(4)))
FAILED = ended_launch(KILLED, fault=finding(summary="X"), view=None)
RECOVERY = {"detection": 0.0, "teardown": 1.0, "relaunch": 0.5, "init": 40.0, "first_step": 0.5}  # seconds; 42 in all
AGAIN = Restart(attempt=1, first_step=200, phases=RECOVERY)
RESUMED = "restart 1 of 3 resumed from step"
EARLIER = msgspec.structs.replace(AGAIN, first_step=90)


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({}, "killed: X"),
        ({"restart": Restart(attempt=1)}, "killed: X; restart 1 of 3 has finished no step yet"),
        ({"restart": AGAIN}, f"killed: X; {RESUMED} 200 after 42 s (init 40 s)"),
        ({"restart": AGAIN, "max_restarts": None}, "killed: X; restart 1 resumed from step 200 after 42 s (init 40 s)"),
        ({"restart": EARLIER}, f"killed: X; {RESUMED} 90 after 42 s (init 40 s), and repeats 10 steps"),
        ({"recorded": NOW + 3600}, "killed: X; recorded late: the hub was down, or no agent answered it"),
    ],
    ids=["no restart", "no step yet", "resumed", "unknown limit of restarts", "from an earlier step", "recorded late"],
)
def test_reason_says_what_followed(changes, text):
    assert msgspec.structs.replace(FAILED, **changes).reason == text


def test_launch_without_a_step_has_no_steps():
    assert msgspec.structs.replace(FAILED, first_step=None).steps_text == "–"
