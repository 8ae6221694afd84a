"""Tests of what-ifs. Each one changes the part of the model that it names."""

from dataclasses import replace

import pytest

from tests.scaling.test_fit import LINKS, OPS, point
from zmon.errors import UsageError
from zmon.scaling.fit import fit
from zmon.scaling.what_if import with_what_ifs

MODEL = fit([point(4, 2048), point(8, 2048), point(8, 4096)], OPS)


def step(*what_ifs, ranks=16):
    """Return the predicted step of so many ranks with 512 samples each, after these changes."""
    return with_what_ifs(MODEL, what_ifs).predict(ranks, 512 * ranks)


def test_links_twice_as_fast_halve_their_exposed_time():
    assert step("net=2").exposed_seconds["all_to_all"] == pytest.approx(step().exposed_seconds["all_to_all"] / 2)
    one_host = {"ranks": LINKS.ranks_per_host}
    assert step("net=2", **one_host).seconds == step(**one_host).seconds
    within = step(**one_host).exposed_seconds["all_reduce"]
    assert step("host=2", **one_host).exposed_seconds["all_reduce"] == pytest.approx(within / 2)


def test_half_of_the_bytes_halves_only_the_exposed_time():
    assert step("wire=0.5").exposed_seconds == pytest.approx({k: s / 2 for k, s in step().exposed_seconds.items()})
    assert step("wire=0.5").self_seconds == step().self_seconds


def test_half_of_the_self_time_halves_the_imbalance_too():
    assert step("own=0.5").self_seconds == pytest.approx(step().self_seconds / 2)
    assert step("own=0.5").imbalance_seconds == pytest.approx(step().imbalance_seconds / 2)
    assert step("own=0.5").exposed_seconds == step().exposed_seconds
    assert step("wire=0.5", "own=0.5").seconds == pytest.approx(step().seconds / 2)


def test_half_of_the_latency_shortens_only_the_exposed_time():
    late = replace(LINKS, net=replace(LINKS.net, latency_seconds=0.001))
    model = fit([point(ranks, samples, links=late) for ranks, samples in ((4, 2048), (8, 2048), (8, 4096))], OPS)
    usual, quicker = (with_what_ifs(model, what_ifs).predict(16, 8192) for what_ifs in ((), ("latency=0.5",)))
    assert quicker.exposed_seconds["all_to_all"] < usual.exposed_seconds["all_to_all"]
    assert quicker.self_seconds == usual.self_seconds


@pytest.mark.parametrize("what_if", ["net", "net=", "net=0", "net=-1", "net=nan", "net=inf", "gpu=2", "=2", ""])
def test_invalid_what_if_is_refused_with_the_valid_ones(what_if):
    with pytest.raises(UsageError, match="bandwidth between hosts"):
        with_what_ifs(MODEL, [what_if])
