"""Tests of the fit of a scaling model. It recovers the model from predicted steps, or is unknown."""

from dataclasses import replace

import pytest

from zmon.scaling.fit import fit
from zmon.scaling.predict import Exchange, Link, Links, Work, predict
from zmon.schema.curve import Point
from zmon.schema.unknown import Unknown

OPS = ("all_to_all", "all_reduce", "barrier")
LINKS = Links(ranks_per_host=4, host=Link(2e9), net=Link(0.5e9))
EXCHANGES = {"all_to_all": Exchange(sample_bytes=5000.0), "all_reduce": Exchange(fixed_bytes=4e6)}
WORK = Work(sample_seconds=2e-5, fixed_seconds=0.002, exchanges=EXCHANGES, spread=0.05, ranks_per_host=4)


def point(ranks, samples, work=WORK, links=LINKS):
    """Return the recorded point of a job with this work and these links."""
    step = predict(work, dict.fromkeys(EXCHANGES, links), ranks, samples)
    sent_bytes = {op: e.fixed_bytes + e.sample_bytes * samples / ranks for op, e in work.exchanges.items()}
    return Point(
        ranks=ranks,
        samples=samples,
        seconds=step.seconds,
        by="zmon scaling",
        recorded=1.8e9,
        causes={"forward": step.self_seconds, "imbalance": step.imbalance_seconds, **step.exposed_seconds},
        sent_bytes=sent_bytes,
        ranks_per_host=min(ranks, links.ranks_per_host),
        processors_per_host=work.processors_per_host,
    )


def predicted(points, ranks, samples, **options):
    """Return the step that a model of these points predicts for a size; by default there are four ranks on a host."""
    return fit(points, OPS, **{"ranks_per_host": 4, **options}).predict(ranks, samples)


CROWDED = {"work": replace(WORK, processors_per_host=2)}  # four ranks on two processors
MEASURED = dict.fromkeys(EXCHANGES, replace(LINKS, ranks_per_host=2, net=None))  # as `zmon bench-comm` on one host
ONE_AND_TWO = [(1, 512), (2, 512), (2, 1024)]  # ranks and samples
HOSTS = [(4, 2048), (8, 2048), (8, 4096)]
SIZES = {  # recorded sizes, predicted sizes, the job, and options of the fit
    "more ranks": (ONE_AND_TWO, [(4, 512), (4, 2048)], {}, {}),
    "shared processors": (ONE_AND_TWO, [(4, 2048)], CROWDED, {}),
    "more hosts": (HOSTS, [(16, 8192)], {}, {}),
    "fixed bytes": ([(2, 1024), (4, 1024)], [(4, 4096)], {}, {}),
    "measured links": ([(2, 512), (2, 1024)], [(4, 2048)], {}, {"measured": MEASURED}),  # ranks_per_host is given, too
}


@pytest.mark.parametrize(("recorded", "sizes", "job", "options"), SIZES.values(), ids=SIZES)
def test_other_sizes_are_predicted_from_recorded_ones(recorded, sizes, job, options):
    points = [point(ranks, samples, **job) for ranks, samples in recorded]
    for ranks, samples in sizes:
        result, expected = predicted(points, ranks, samples, **options), point(ranks, samples, **job)
        assert result.seconds == pytest.approx(expected.seconds, rel=1e-6)
        for op in EXCHANGES:
            assert result.exposed_seconds[op] == pytest.approx(expected.causes[op], rel=1e-6)
        assert result.ranks_per_processor == (2.0 if job is CROWDED else 1.0)


@pytest.mark.parametrize(("ranks", "samples"), [(4, 2048), (8, 2048), (16, 8192)])
def test_latency_of_all_to_all_is_fitted(ranks, samples):
    late = Links(ranks_per_host=4, host=Link(2e9, latency_seconds=0.001), net=Link(0.5e9, latency_seconds=0.004))
    recorded = [(2, 512), (4, 512), (4, 4096), (8, 512), (8, 8192)]
    result = predicted([point(*size, links=late) for size in recorded], ranks, samples)
    expected = point(ranks, samples, links=late)
    assert result.exposed_seconds["all_to_all"] == pytest.approx(expected.causes["all_to_all"], rel=0.01)
    assert result.ranks_per_processor == 1.0


def test_hosts_are_by_default_the_recorded_ones():
    assert isinstance(fit([point(2, 512), point(2, 1024)], OPS).predict(4, 2048), Unknown)
    by_hub = replace(point(2, 512, **CROWDED), processors_per_host=None)
    assert fit([by_hub, point(2, 1024, **CROWDED)], OPS).work.processors_per_host == 2


def test_self_time_is_fitted_at_the_largest_size_with_two_batches():
    alone = replace(point(1, 512), causes={"forward": 0.001})  # one rank has all caches for itself
    points = [alone, point(2, 512), point(2, 1024)]
    assert predicted(points, 2, 1024).self_seconds == pytest.approx(point(2, 1024).causes["forward"])


def test_several_hosts_are_unknown_without_runs_or_measured_links():
    points = [point(2, 512), point(4, 2048)]
    assert predicted(points, 16, 8192) == Unknown("the speed of all_reduce between hosts was not measured")
    step = predicted(points, 16, 8192, measured=dict.fromkeys(EXCHANGES, LINKS))
    assert step.seconds == pytest.approx(point(16, 8192).seconds, rel=1e-6)


def test_exposed_share_is_fitted_with_measured_links():
    half = {op: replace(e, exposed=0.5) for op, e in EXCHANGES.items()}
    points = [point(2, 512, replace(WORK, exchanges=half)), point(2, 1024, replace(WORK, exchanges=half))]
    result = fit(points, OPS, measured=dict.fromkeys(EXCHANGES, LINKS))
    assert result.work.exchanges["all_reduce"].exposed == pytest.approx(0.5)
    twice = replace(LINKS, host=Link(4e9))
    faster = fit(points, OPS, measured=dict.fromkeys(EXCHANGES, twice))
    assert faster.work.exchanges["all_to_all"].exposed == pytest.approx(1.0)


@pytest.mark.parametrize(
    "points",
    [[], [point(1, 512)], [replace(point(2, 512), causes={})]],
    ids=["no run", "one rank", "no time categories"],
)
def test_model_is_unknown_without_a_run_of_several_ranks(points):
    assert fit(points, OPS) == Unknown("no run of several ranks was recorded with its time categories")


def test_op_without_bytes_keeps_its_duration():
    waits = [replace(p, causes={**p.causes, "barrier": 0.003}) for p in (point(2, 512), point(2, 1024))]
    assert predicted(waits, 4, 2048).exposed_seconds["barrier"] == pytest.approx(0.003)


def test_predicted_times_are_not_negative_despite_noise():
    backwards = [point(2, 1024), replace(point(2, 512), causes={"forward": 1.0, "all_reduce": 0.9, "all_to_all": 0.9})]
    result = predicted(backwards, 4, 512)
    assert result.self_seconds > 0
    assert all(seconds >= 0 for seconds in result.exposed_seconds.values())


def test_runs_on_several_hosts_do_not_predict_a_single_host():
    points = [point(16, 8192), point(32, 16384), point(32, 32768)]
    assert predicted(points, 64, 32768).seconds == pytest.approx(point(64, 32768).seconds, rel=0.1)
    assert predicted(points, 4, 2048) == Unknown("the speed of all_reduce within a host was not measured")


def test_each_run_is_fitted_with_its_own_ranks_per_host():
    apart = replace(LINKS, ranks_per_host=1)
    spread_out = replace(point(2, 512, links=apart), ranks_per_host=1)
    result = fit([spread_out, point(4, 512), point(4, 2048)], OPS)
    assert result.links["all_to_all"].host.bytes_per_second == pytest.approx(2e9)
    assert result.links["all_to_all"].net.bytes_per_second == pytest.approx(0.5e9)


def test_model_is_unknown_without_recorded_bytes():
    without_bytes = [replace(p, sent_bytes={}) for p in (point(2, 512), point(2, 1024))]
    assert fit(without_bytes, OPS) == Unknown("the bytes that all_reduce moves were not recorded")
