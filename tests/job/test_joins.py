"""Tests of ranks that heal in their processes: survivors join again, and a new process replaces the rank that failed.

In this job rank 1 fails after 150 steps. Rank 0 joins its new process, which counts its steps from 1.
"""

from dataclasses import replace

import pytest

from tests.build import JOB, agent_report, rank_state, snapshot, step_record
from tests.detectors.stalls import STALL
from tests.steps import OpTotals, steps_of
from zmon.hub.job_state import JobState
from zmon.job.history import History
from zmon.job.joins import steps_before_join
from zmon.job.time_account import Account
from zmon.schema.names import SAME_SIZE_OPS

OP, BYTES = SAME_SIZE_OPS[0], 1000
LABEL = "steps_before_join"


def state(rank, uid, number, before=0, given=0):
    """Return a rank of two that has finished this many steps; `given`: the job numbers them, from this number on."""
    labels = {LABEL: str(before)} if before else {}
    return rank_state(
        rank, run_uid=uid, world_size=2, steps=number, step=(given or 1) + number, labels=labels, activity="train"
    )


RANKS = {  # the two ranks, and the steps that each had finished when it joined; empty: their numbers compare
    "a job that never healed": ([state(0, "a", 700), state(1, "b", 700)], {}),
    "both have joined again": ([state(0, "a", 700, 150), state(1, "b", 700, 150)], {}),
    "one is new": ([state(0, "a", 700, 150), state(1, "c", 550)], {"a": 150, "c": 0}),
    "one is new and has finished no step": ([state(0, "a", 150, 150), state(1, "c", 0)], {"a": 150, "c": 0}),
    "a third process of rank 1": ([state(0, "a", 700, 400), state(1, "d", 300)], {"a": 400, "d": 0}),
    "rank 0 had finished one more": ([state(0, "a", 300, 151), state(1, "b", 299, 150)], {"a": 151, "b": 150}),
    "the job numbers its steps": ([state(0, "a", 700, 150), state(1, "c", 550, given=151)], {}),
    "the job numbers its steps from 2": ([state(0, "a", 700, 150), state(1, "c", 550, given=2)], {}),
    "the label is no number": ([rank_state(0, labels={LABEL: "many"}), rank_state(1)], {}),
}


@pytest.mark.parametrize(("ranks", "before"), RANKS.values(), ids=RANKS)
def test_steps_before_a_join_are_known_for_ranks_whose_step_numbers_do_not_compare(ranks, before):
    assert steps_before_join(ranks) == before


def records(*numbers):
    """Return the records of a rank about the steps with these numbers."""
    return [step_record(number) for number in numbers]


def aligned(history, before, **of_uid):
    """Return the steps that are complete after these numbers by run uid; `a` is rank 0, the others were rank 1."""
    ranks = {uid: int(uid != "a") for uid in of_uid}
    steps = steps_of({uid: records(*numbers) for uid, numbers in of_uid.items()})
    return [step.step for step in history.add([steps], ranks, before)]


def test_steps_are_matched_by_their_number_since_the_ranks_joined():
    history, before = History(2), {"a": 150, "c": 0}
    assert aligned(history, {}, a=(148, 149, 150), b=(148, 149, 150)) == [148, 149, 150]
    assert aligned(history, before, a=(149, 150, 151, 152), c=(1,)) == [151]
    assert aligned(history, before, a=(153,), c=(2, 3, 4)) == [152, 153]
    assert [step.step for step in history.steps] == [151, 152, 153]


def test_steps_of_a_process_that_is_gone_are_forgotten():
    """The job numbers its steps, and goes back to its checkpoint at step 100."""
    history = History(2)
    assert aligned(history, {}, a=(119, 120, 121), b=(119, 120)) == [119, 120]
    assert aligned(history, {}, a=(), c=()) == []
    assert aligned(history, {}, a=(101,), c=(101, 102)) == [101]
    assert [step.step for step in history.steps] == [101]


def test_steps_before_the_ranks_joined_wait_for_nobody():
    history = History(2)
    assert aligned(history, {"a": 150, "c": 0}, a=(149, 150), c=()) == []
    assert not history._pending


def sending(numbers, extra=0, skipped=None):
    """Return steps in each of which the rank all-reduces as many bytes; `extra`: bytes that it sent before the first.

    It swallows an exception in step `skipped`, and goes on without its collectives.
    """
    of_steps, total = [], extra
    for number in numbers:
        num_bytes = 0 if number == skipped else BYTES
        total += num_bytes
        record = step_record(number)
        ops = {OP: OpTotals(1, 0.01, 0.01, num_bytes, num_bytes)}
        measures = replace(record.measures, ops=ops)
        of_steps.append(replace(record, measures=measures, total_sent_bytes=total))
    return of_steps


def healed(skipped=None):
    """Return the job 170 steps after it has healed. Rank 0 had entered a collective of the step in which rank 1 failed.

    `skipped`: the step of the new process whose collectives it skips.
    """
    job = JobState({"a", "b"}, 2, Account(JOB))
    old, new = [state(0, "a", 150), state(1, "b", 150)], [state(0, "a", 320, 150), state(1, "c", 170)]
    of_old = {"a": sending(range(1, 151)), "b": sending(range(1, 151))}
    of_new = {"a": sending(range(151, 321), extra=151 * BYTES), "c": sending(range(1, 171), skipped=skipped)}
    job.add(snapshot(*old), [agent_report(*old, records={JOB: of_old})])
    return job.add(snapshot(*new), [agent_report(*new, records={JOB: of_new})])


def test_sequence_lag_is_quiet_after_ranks_have_healed():
    scene = healed()
    assert (scene.steps[0].step, scene.steps[-1].step) == (151, 320)
    assert not STALL.detect(scene)


def test_new_process_that_skips_a_step_is_named():
    (finding,) = STALL.detect(healed(skipped=80))
    assert (finding.cause, finding.ranks, finding.step) == ("sequence_lag", (1,), 230)
