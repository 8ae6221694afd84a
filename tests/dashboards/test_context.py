"""Tests of `ViewContext`: its static state, its open findings, and the begin and the windows of its charts."""

import pytest

from dashboards.address import Address
from dashboards.glance import Glance
from dashboards.intervals import CLUSTER, ONE_MACHINE
from dashboards.views.context import ViewContext
from tests.dashboards.world import JOB, STALL, changed


def _context(moment: float = 1_800_000_000.0, address: dict[str, str] | None = None, **now: object) -> ViewContext:
    values = {"time": moment, "job_id": "ads", "job": JOB, "hub_answers": True, "prometheus_answers": True, **now}
    return ViewContext(Glance(**values), Address.read(address or {"range": "6h"}), prometheus=None, hub=None)


def test_static_state_is_unchanged_by_new_step_and_new_summary():
    context = _context(findings=(STALL,), all_findings=(STALL,))
    finding = changed(STALL, lost_gpu_hours=7.0, summary="rank 1 has not moved for 9 s")
    later = _context(1_800_000_002.0, findings=(finding,), all_findings=(finding,), job=changed(JOB, step=99))
    assert later.static_state == context.static_state


@pytest.mark.parametrize(
    "other",
    [
        {"moment": 1_800_000_090.0},  # a point is due
        {"findings": (STALL,)},
        {"elsewhere": (STALL,)},
        {"all_findings": (changed(STALL, resolved=1.0),)},
        {"address": {"range": "1h"}},
        {"address": {"range": "6h", "rank": "1"}},
        {"job": changed(JOB, world_size=4)},
        {"hub_answers": False},
        {"hub_is_blind": True},
        {"prometheus_answers": False},
        {"intervals": CLUSTER},
        {"job_ids": ("ads", "video")},
    ],
    ids=lambda other: next(iter(other)),
)
def test_static_state_changes_with_each_input_of_charts(other):
    assert _context(**other).static_state != _context().static_state


@pytest.mark.parametrize(("moment", "num_findings"), [("", 1), ("1700000000", 0)], ids=["now", "before its onset"])
def test_finding_open_now_is_not_among_findings_of_past_moment(moment, num_findings):
    finding = changed(STALL, onset=1.79e9, resolved=None)
    now = Glance(time=1.8e9, job_id="ads", findings=(finding,), all_findings=(finding,))
    context = ViewContext(now, Address.read({"at": moment}), prometheus=None, hub=None)
    assert len(context.findings) == num_findings


def test_charts_of_young_job_begin_with_job():
    context = _context(job=changed(JOB, time={"init": 100.0, "forward": 300.0}), address={"range": "6h"})
    assert context.begin(context.span) == context.now.time - 400
    assert context.span.end - context.span.start == 900


def test_charts_of_time_before_job_begin_with_span():
    """A link may be about an earlier job of the same name."""
    moment = 1_800_000_000 - 86_400
    context = _context(job=changed(JOB, time={"forward": 400.0}), address={"range": "6h", "at": str(moment)})
    assert context.begin(context.span) == context.span.start == context.span.end - 21_600


def test_charts_of_all_jobs_begin_with_the_oldest_job():
    """The other job began after the moment of the link."""
    old, new = (changed(JOB, job_id=name, time={"forward": age}) for name, age in (("old", 14_400.0), ("new", 600.0)))
    now = Glance(time=1.8e9, job_id=None, jobs=(old, new))
    address = Address.read({"at": str(1_800_000_000 - 3600), "range": "24h"})
    context = ViewContext(now, address, prometheus=None, hub=None, shows_one_job=False)
    assert context.begin(context.span) == now.time - 14_400


@pytest.mark.parametrize(
    ("fields", "is_blind"),
    [({"state": "done"}, False), ({"state": "exited"}, False), ({"time": {}}, False), ({}, True)],
)
def test_charts_begin_with_span_if_the_begin_of_the_job_is_unknown(fields, is_blind):
    job = changed(JOB, **{"time": {"forward": 400.0}} | fields)
    context = _context(job=job, hub_is_blind=is_blind, address={"range": "6h"})
    assert context.begin(context.span) == context.span.start == context.span.end - 21_600


@pytest.mark.parametrize(
    ("intervals", "windows", "columns"),
    [(ONE_MACHINE, {"hub": 10, "both": 10, "ranks": 20}, 10), (CLUSTER, {"hub": 10, "both": 75, "ranks": 30}, 15)],
    ids=["one machine", "cluster"],
)
def test_windows_and_columns_of_charts_follow_from_scrape_intervals(intervals, windows, columns):
    context = _context(address={"range": "5m"}, intervals=intervals)
    assert {source: context.selection(context.span, source).window for source in windows} == windows
    assert context.rows_span.resolution == columns
