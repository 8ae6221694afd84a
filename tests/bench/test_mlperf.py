"""Tests of the table of MLPerf's results: docs/efficiency.md contains what the benchmark prints."""

from bench import mlperf
from tests.places import REPOSITORY

DOCS = REPOSITORY / "docs/efficiency.md"


def test_table_in_docs_equals_printed_table(capsys):
    mlperf.main()
    assert capsys.readouterr().out in DOCS.read_text()
