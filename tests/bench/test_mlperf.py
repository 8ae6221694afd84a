"""Tests that the table of MLPerf's results in the docs is what the model predicts, errors included."""

from bench import mlperf
from tests.places import REPOSITORY

DOCS = REPOSITORY / "docs/efficiency.md"


def test_table_in_the_docs_is_the_one_that_is_printed(capsys):
    mlperf.main()
    assert capsys.readouterr().out in DOCS.read_text()


def test_batches_are_those_of_the_published_configurations():
    assert [batch // ranks for ranks, batch, _ in mlperf.ROWS] == [6912, 2112, 1056]
