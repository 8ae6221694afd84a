"""Tests of the /metrics page of a collector."""

from tests.places import REPOSITORY
from zmon.metrics import collector_page

GOLDEN_PAGE = REPOSITORY / "tests/golden/collector_page.txt"


def test_page_equals_its_golden():
    """If the page changes on purpose, write it again: it is what Prometheus scrapes."""
    assert collector_page(256, 255, 1_800_000_000.0).decode() == GOLDEN_PAGE.read_text()


def test_collector_that_no_hub_has_asked_yet_does_not_say_when():
    assert "timestamp_seconds" not in collector_page(256, 0, None).decode()
