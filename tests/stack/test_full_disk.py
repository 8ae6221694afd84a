"""Tests that a Prometheus whose disk is full sends a page: it cannot store what the alerts on findings need."""

import resource

import pytest

from tests.boxes import eventually
from tests.stack.test_pages import Alerting

# It waits for two minutes. promtool tests the rules in every run.
pytestmark = [pytest.mark.e2e, pytest.mark.slow, pytest.mark.timeout(240)]

PAGE_SECONDS = 60 + 20 + 25  # the rule's window and `for`, and the next notification


def limit_files(process, max_bytes):
    """Let writes of a process fail that would make a file longer than this, as on a full disk."""
    resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (max_bytes, resource.RLIM_INFINITY))


def test_full_disk_of_prometheus_is_one_page_and_a_stall_pages_once_there_is_space(tmp_path):
    alerting = Alerting(tmp_path, quick=True)
    try:
        alerting.open_finding("before")
        alerting.wait_for("pager", "before")  # it has written more than the limit
        prometheus = alerting._running["prometheus"]
        limit_files(prometheus, 4096)

        def pages():
            return alerting.notifications("pager", None)  # alerts on the monitor have no job

        alerting.open_finding("after")
        assert eventually(pages, PAGE_SECONDS), (tmp_path / "prometheus.log").read_text()[-2000:]
        assert pages() == ["firing: ZmonSamplesMissing"]
        limit_files(prometheus, resource.RLIM_INFINITY)
        alerting.wait_for("pager", "after")
        assert eventually(lambda: "resolved: ZmonSamplesMissing" in pages(), 30)
    finally:
        alerting.close()
