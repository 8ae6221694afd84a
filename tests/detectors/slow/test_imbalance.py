"""Tests of the detector `imbalance`.

A rank that always has more work is reported if that costs time. Random differences are not.
"""

import random
from dataclasses import replace

import pytest

from tests.build import dead, job_steps, plan, rank_state, snapshot
from tests.steps import changed
from zmon.detectors.slow.imbalance import Imbalance
from zmon.schema.evidence import PlannedShare

EVEN = 60_000  # bytes
MEAN = 1000  # lookups


def ranks(number=4):
    return [rank_state(rank, world_size=number, host=f"node-{rank}") for rank in range(number)]


def detect(steps, states=None, plan=None):
    """Return the one finding, or None."""
    states = states or ranks(len(steps[0].self_seconds))
    return next(iter(Imbalance().detect(replace(snapshot(*states), steps=tuple(steps), plan=plan))), None)


def working(seconds, step=0.030):
    """Return a rank that computes for this time and exchanges for the rest of the step."""
    return {"phases": {"embedding": seconds}, "ops": {"all_to_all": step - seconds}}


def uneven(*shares, seconds=None, number=64, op="all_to_all", direction="received_bytes"):
    """Return steps of 30 ms of ranks with these multiples of the even share; more work means more computing."""
    seconds = seconds or [0.010 * share for share in shares]
    column = {op: tuple(round(EVEN * share) for share in shares)}
    steps = job_steps(number, *({**working(s), "ops": {op: 0.030 - s}} for s in seconds))
    other = {op: (EVEN,) * len(shares)}
    both = {"sent_bytes": other, "received_bytes": other, direction: column}
    return [changed(step, **both) for step in steps]


SKEWED_STEPS = uneven(0.33, 0.33, 3.0, 0.33, seconds=[0.008, 0.008, 0.024, 0.008])


def steps_with_lookups(*lookups, seconds=(0.008, 0.008, 0.024, 0.008)):
    return [changed(s, lookups=lookups) for s in job_steps(64, *map(working, seconds))]


def test_rank_that_receives_much_more_than_the_others_is_named():
    finding = detect(SKEWED_STEPS)
    assert (finding.detector, finding.cause, finding.severity) == ("imbalance", "all_to_all_skew", "warning")
    assert (finding.ranks, finding.hosts, finding.op) == ((2,), ("node-2",), "all_to_all")
    assert "rank 2 on node-2 receives in all_to_all 9.1 × as much as the others (threshold 2 ×)" in finding.summary
    assert "180,000 bytes per step against 19,800" in finding.summary
    assert finding.runbook == "docs/runbooks.md#all_to_all_skew"


def test_rank_that_sends_more_is_named():
    finding = detect(uneven(1.0, 3.0, 1.0, 1.0, seconds=[0.010, 0.020, 0.010, 0.010], direction="sent_bytes"))
    assert (finding.cause, finding.ranks) == ("all_to_all_skew", (1,))
    assert "sends in all_to_all 3.0 ×" in finding.summary


def test_rank_whose_tables_have_most_lookups_is_named():
    finding = detect(steps_with_lookups(MEAN, MEAN, 3 * MEAN, MEAN))
    assert (finding.cause, finding.ranks, finding.op) == ("lookup_skew", (2,), None)
    assert "looks up in its tables 3.0 × as much as the others" in finding.summary


def test_rank_that_has_all_of_the_work_is_named_without_a_ratio():
    finding = detect(steps_with_lookups(0, 0, MEAN, 0))
    assert (
        "rank 2 on node-2 looks up in its tables and the others do not (threshold 2 ×): 1,000 ids per step against 0;"
        in finding.summary
    )
    assert finding.evidence.uneven_ratio is None


def test_lost_gpu_hours_are_the_time_that_an_even_split_would_save():
    on_gpus = [replace(state, device=f"GPU-{state.rank}") for state in ranks()]
    finding = detect(SKEWED_STEPS, on_gpus)
    seconds = finding.detected - finding.onset
    assert finding.lost_gpu_hours == pytest.approx(4 * seconds / 3600 * finding.evidence.cost_ratio)
    assert finding.evidence.cost_ratio < 1


def test_culprit_of_a_job_of_two_ranks_is_named():
    """A share is compared with those of the others: no rank of two can have three times the mean of both."""
    assert detect(uneven(0.5, 1.5, seconds=[0.010, 0.020])).ranks == (1,)


def test_rank_that_receives_more_is_named_if_all_compute_equally_long():
    """All ranks compute equally long; the step waits for the data that one rank must receive."""
    assert detect(uneven(0.5, 0.5, 2.5, 0.5, seconds=[0.010] * 4)).ranks == (2,)


def test_planned_and_measured_work_of_the_culprit_are_compared():
    finding = detect(SKEWED_STEPS, plan=plan())
    assert finding.summary.endswith("; it holds t2; 60,000 bytes were planned, it has 3.0 × that")
    assert finding.detail.startswith("Rank 2 holds t2. Move some to other ranks")
    assert "`zmon status --job job`" in finding.detail
    assert finding.evidence.plan == PlannedShare(("t2",), num_tables=1, planned=60_000, measured=180_000, unit="bytes")


def test_lookups_are_compared_with_planned_lookups():
    finding = detect(steps_with_lookups(MEAN, MEAN, 3 * MEAN, MEAN), plan=plan(lookups=(1000, 1000, 2900, 1000)))
    assert finding.summary.endswith("; it holds t2; 2,900 ids were planned, it has 1.0 × that")


def test_summary_names_only_the_first_five_tables():
    many = tuple(f"table-{number:03}" for number in range(400))
    finding = detect(SKEWED_STEPS, plan=plan(("a",), ("b",), many, ("c",), num_tables=(1, 1, 2000, 1)))
    assert "it holds table-000, table-001, table-002, table-003, table-004 and 1995 more;" in finding.summary


def test_incomplete_plan_is_shown_in_part():
    silent = plan((), (), (), (), received_bytes=(None,) * 4, num_tables=(None,) * 4)
    finding = detect(SKEWED_STEPS, plan=silent)
    assert finding.summary == detect(SKEWED_STEPS).summary
    assert finding.detail.startswith("Which tables or experts does rank 2 hold?")
    assert detect(SKEWED_STEPS, plan=plan(received_bytes=(0,) * 4)).summary.endswith(
        "it holds t2; 0 bytes were planned"
    )


def test_finding_has_the_same_id_with_and_without_a_plan():
    assert detect(SKEWED_STEPS, plan=plan()).id == detect(SKEWED_STEPS).id


def test_imbalance_reports_nothing_if_all_ranks_miss_the_plan_equally():
    assert detect(uneven(1.0, 1.0, 1.0, 1.0), plan=plan(received_bytes=(1000,) * 4)) is None


def test_imbalance_reports_nothing_when_work_is_even():
    assert detect(uneven(1.0, 1.0, 1.0, 1.0)) is None
    assert detect(steps_with_lookups(MEAN, MEAN, MEAN, MEAN)) is None


def test_imbalance_reports_nothing_when_tables_do_not_divide_evenly():
    assert detect(uneven(0.8, 0.8, 1.4, 1.0)) is None


def test_imbalance_reports_nothing_when_uneven_work_costs_nothing():
    """All ranks compute for most of the step and enter the exchange together, so hardly any time is exposed."""
    assert detect(uneven(0.5, 0.5, 2.5, 0.5, seconds=[0.029] * 4)) is None


@pytest.mark.parametrize("number", [2, 4, 8])
@pytest.mark.parametrize("seed", range(20))
def test_imbalance_reports_nothing_if_pooling_factors_vary_at_random(seed, number):
    chance = random.Random(seed)
    steps = []
    for _ in range(24):
        factors = [chance.choice((1, 5)) for _ in range(number)]
        (step,) = uneven(*factors, seconds=[0.006 * f for f in factors], number=1)
        steps.append(changed(step, lookups=tuple(round(MEAN * f) for f in factors)))
    assert detect(steps) is None


def test_imbalance_ignores_a_few_heavy_steps():
    assert (
        detect([*uneven(1, 1, 1, 1, number=60), *uneven(1, 1, 90, 1, seconds=[0.01, 0.01, 0.02, 0.01], number=4)])
        is None
    )


def test_imbalance_ignores_a_slow_rank_with_an_even_share():
    assert detect(uneven(1.0, 1.0, 1.0, 1.0, seconds=[0.010, 0.010, 0.028, 0.010])) is None


@pytest.mark.parametrize("op", ["all_reduce", "all_gather", "broadcast"])
def test_imbalance_ignores_other_collectives(op):
    assert detect(uneven(0.33, 0.33, 3.0, 0.33, seconds=[0.008, 0.008, 0.024, 0.008], op=op)) is None


def test_imbalance_ignores_ranks_that_take_no_part_in_the_exchange():
    """Half of the ranks hold tables, the others dense layers."""
    steps = uneven(1.0, 1.0, 0.0, 0.0, seconds=[0.020, 0.020, 0.010, 0.010])
    assert detect([changed(s, sent_bytes=s.received_bytes) for s in steps]) is None


@pytest.mark.parametrize("number", [0, 5, 15])
def test_imbalance_reports_nothing_before_there_are_enough_steps(number):
    assert detect(SKEWED_STEPS[:number], ranks()) is None


def test_imbalance_ignores_an_ended_job():
    assert detect(SKEWED_STEPS, [dead(rank) for rank in range(4)]) is None


def test_imbalance_ignores_lookups_that_some_rank_does_not_report():
    assert detect(steps_with_lookups(None, MEAN, 3 * MEAN, MEAN)) is None


def test_culprit_follows_a_permutation_of_the_ranks():
    assert [detect(uneven(*shares)).ranks for shares in ((3.0, 0.5, 0.5), (0.5, 3.0, 0.5), (0.5, 0.5, 3.0))] == [
        (0,),
        (1,),
        (2,),
    ]


def test_finding_stays_open_while_there_are_too_few_steps():
    finding, job = detect(SKEWED_STEPS), snapshot(*ranks())
    assert not Imbalance().can_resolve(job, finding)
    assert Imbalance().can_resolve(replace(job, steps=tuple(SKEWED_STEPS)), finding)


def test_imbalance_is_inert_if_no_rank_waits_for_others():
    job = snapshot(*ranks())
    inert = [
        Imbalance().inert_reason(replace(job, steps=tuple(steps)))
        for steps in (SKEWED_STEPS, uneven(1, 1, op="all_reduce"), job_steps(4, ops={}))
    ]
    assert inert == [None, None, "its steps report no collective"]
    assert Imbalance().inert_reason(snapshot(*ranks(1))) == "it has one rank"
