"""Tests of a point of the scaling curve: the step time at one number of ranks, from some rounds of a job.

Warm-up and pauses are left out; differences between rounds widen its interval.
"""

from dataclasses import replace

import pytest

from lab.sweep import settled_point
from tests.offline.compare.runs import log
from zmon.offline.compare import series
from zmon.schema.unknown import Unknown


def run(seed=1, steps=400, **others):
    return series("run", log(seed, steps=steps, **others))


def point(*rounds, batch=None):
    return settled_point(rounds, batch, processors=2, by="zmon scaling", now=1.8e9)


def test_categories_of_a_point_sum_to_its_step_time():
    result = point(run(), run(2))
    assert result.seconds == pytest.approx(0.0405, rel=0.05)  # self time, the wait for the slower rank, exchange
    assert sum(result.causes.values()) == pytest.approx(result.seconds)


def test_point_has_the_size_of_its_runs():
    result = point(run(), run(2))
    assert (result.ranks, result.samples, result.processors_per_host) == (2, 128, 2)


def test_slow_first_steps_and_pauses_do_not_count():
    cold = run()
    slow = replace(cold, seconds=[0.5 if n < 20 else s for n, s in enumerate(cold.seconds)])
    pause = replace(cold, seconds=[1.0 if n % 50 == 49 else s for n, s in enumerate(cold.seconds)])
    for disturbed in (slow, pause):
        assert point(disturbed).seconds == pytest.approx(point(cold).seconds, rel=0.01)


def test_rounds_that_differ_widen_the_interval():
    alike, apart = point(run(1), run(2)), point(run(1), run(2, slower=0.2))
    assert apart.half_width_seconds > 3 * alike.half_width_seconds
    faster = point(run(1))
    assert apart.seconds - apart.half_width_seconds < 1.001 * faster.seconds  # it reaches down to the faster round


def test_bytes_of_a_point_are_the_mean_of_its_rounds():
    rounds = [replace(run(), sent_bytes={"all_to_all": sent_bytes}) for sent_bytes in (1000.0, 3000.0)]
    assert point(*rounds).sent_bytes == {"all_to_all": 2000.0}


def test_too_few_steps_are_unknown():
    assert point(run(steps=40)) == Unknown("40 steps are too few: let it run longer with --seconds")


@pytest.mark.parametrize("samples", [None, [0] * 400])
def test_point_is_unknown_without_samples_or_batch(samples):
    unreported = replace(run(), samples=samples)
    assert "the number of samples is unknown" in point(unreported).reason
    assert point(unreported, batch=256).samples == 256
    assert point(run(), batch=256).samples == 128  # reported samples take precedence over --batch
