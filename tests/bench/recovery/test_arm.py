"""Tests of the arms of the benchmark: the same faults with acts of zmon, without them, and with a shared store.

A real job is killed, torchrun starts it again, and the lost steps are done again.
"""

import pytest

from bench.recovery.__main__ import arms
from bench.recovery.arm import Arm, Sizes, run_arm
from bench.recovery.figures import CALM, MOMENTS
from lab.drills.session import open_stage
from zmon.probe.launch import check_job_id

SIZES = Sizes(every=20.0, faults=1, ranks=2, step_seconds=0.02, cap=60.0, seed=1)


@pytest.mark.drill
@pytest.mark.slow  # it starts a stack and two launches of a job
@pytest.mark.timeout(240)
def test_every_moment_of_a_recovery_from_a_killed_rank_is_known(tmp_path):
    with open_stage("host", tmp_path) as stage:
        run = run_arm(Arm("no-acts", ("killed",), acts=False), SIZES, stage, None)
    (recovery,) = run.recoveries
    assert run.num_steps > recovery.step > 0
    assert run.seconds is not None
    assert recovery.lost_seconds > 0
    assert recovery.num_launches == 1
    # a missing moment raises KeyError
    torchrun_moments = [recovery.moments[name] for name in MOMENTS if name not in ("finding", "act")]
    assert torchrun_moments == sorted(torchrun_moments)


def test_id_of_the_job_of_each_arm_is_valid():
    for arm in arms(faults=6):
        assert check_job_id(f"recovery-{arm.name}") == f"recovery-{arm.name}"  # else zmon does not watch it


def test_faults_alternate_and_nothing_follows_a_frozen_rank_without_acts():
    """Without acts, a frozen rank waits for torch's timeout of a collective, so no later fault would be measured."""
    kinds = {arm.name: arm.kinds for arm in arms(faults=6)}
    assert kinds[CALM] == ()
    assert kinds["acts"] == kinds["acts-shared-store"] == ("frozen", "killed") * 3
    assert kinds["no-acts"] == ("killed", "frozen")
