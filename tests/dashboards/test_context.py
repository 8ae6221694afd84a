"""Does a page know what of it must be drawn anew, and who was to blame at the moment that is looked at?"""

import pytest

from dashboards.address import Address
from dashboards.glance import Glance
from dashboards.views.context import ViewContext
from tests.dashboards.world import JOB, STALL, changed


def _context(moment: float = 1_800_000_000.0, address: dict[str, str] | None = None, **now: object) -> ViewContext:
    values = {"time": moment, "job_id": "ads", "job": JOB, "hub_answers": True, "prometheus_answers": True, **now}
    return ViewContext(Glance(**values), Address.read(address or {"range": "6h"}), None, None)


def test_charts_stand_while_a_refresh_has_nothing_new_for_them():
    stands = _context(findings=(STALL,), past=(STALL,)).standing
    later = changed(STALL, lost_gpu_hours=7.0, summary="rank 1 has not moved for 9 s")
    assert _context(1_800_000_002.0, findings=(later,), past=(later,), job=changed(JOB, step=99)).standing == stands


@pytest.mark.parametrize(
    "other",
    [
        {"moment": 1_800_000_090.0},  # a point is due
        {"findings": (STALL,)},
        {"elsewhere": (STALL,)},
        {"past": (changed(STALL, resolved=1.0),)},
        {"address": {"range": "1h"}},
        {"address": {"range": "6h", "rank": "1"}},
        {"job": changed(JOB, world_size=4)},
        {"hub_answers": False},
        {"hub_is_blind": True},
        {"prometheus_answers": False},
        {"job_ids": ("ads", "video")},
    ],
    ids=lambda other: next(iter(other)),
)
def test_charts_are_drawn_anew_when_something_of_them_would_be_another(other):
    assert _context(**other).standing != _context().standing


@pytest.mark.parametrize("at", ["", "1700000000"])
def test_who_is_to_blame_now_is_marked_on_what_is_now_alone(at, monkeypatch):
    finding = changed(STALL, onset=1.79e9, resolved=None)
    now = Glance(time=1.8e9, job_id="ads", findings=(finding,), past=(finding,))
    assert bool(ViewContext(now, Address.read({"at": at}), None, None).findings) is not bool(at)


def test_charts_of_a_young_job_begin_with_it_and_show_all_of_it():
    context = _context(job=changed(JOB, time={"init": 100.0, "forward": 300.0}), address={"range": "6h"})
    assert context.begin(context.span) == context.now.time - 400
    assert context.span.end - context.span.start == 900


@pytest.mark.parametrize("then", [{"state": "done"}, {"state": "exited"}, {"time": {}}])
def test_when_a_job_began_that_has_ended_nobody_says(then):
    context = _context(job=changed(changed(JOB, time={"forward": 400.0}), **then), address={"range": "6h"})
    assert context.begin(context.span) == context.span.start == context.span.end - 21_600


def test_nor_what_a_blind_hub_saw_last():
    context = _context(job=changed(JOB, time={"forward": 400.0}), hub_is_blind=True, address={"range": "6h"})
    assert context.begin(context.span) == context.span.start
