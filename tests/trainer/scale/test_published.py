"""Tests of the published models: exact sums of parameters, and assumptions that are printed."""

import pytest

from trainer.scale.published import PUBLISHED, ZIONEX


@pytest.mark.parametrize("name", PUBLISHED)
def test_tables_and_dense_layers_have_exactly_the_published_parameters(name: str) -> None:
    model = PUBLISHED[name]
    assert model.dense.parameters + sum(table.rows * table.dim for table in model.tables()) == model.parameters
    assert 0 <= model.dense.parameters - model.layers * model.width**2 < max(model.dims)  # what no table can have


@pytest.mark.parametrize("name", PUBLISHED)
def test_means_over_tables_are_those_that_are_printed(name: str) -> None:
    model = PUBLISHED[name]
    tables = model.tables()
    assert len(tables) == model.num_tables
    assert sum(table.pooling for table in tables) / len(tables) == pytest.approx(model.pooling)
    assert tables[0].rows * tables[0].dim == pytest.approx(4 * tables[3].rows * tables[3].dim, rel=1e-3)


def test_each_rank_adds_its_interface_of_100_gigabits_to_the_bandwidth_of_its_host() -> None:
    assert [ZIONEX.machine(ranks).host_bandwidth for ranks in (2, 8)] == [2 * 12.5e9, 8 * 12.5e9]  # bytes/s


def test_published_and_assumed_figures_are_separate() -> None:
    published, assumed = PUBLISHED["zionex-a"].facts()
    assert published.startswith("published (arXiv 2104.05158): 793,000,000,000 parameters, 638 M operations")
    assert "1.2 M samples/s on 128 GPUs" in published
    for assumption in (
        "operations are multiply-adds",
        "1,000 tables of dimension 4 to 384",
        "mean pooling factor 15, 0.1 to 4 times this for a table",
        "ids spread evenly over the rows",
        "20 layers of 3375 × 3375 in float32 with one number of state",
    ):
        assert assumption in assumed
    published, assumed = PUBLISHED["zionex-95b"].facts()
    assert "60 M operations per sample" in assumed
    assert "operations" not in published
    assert "samples/s" not in published
