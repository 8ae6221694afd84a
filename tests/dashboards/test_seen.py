"""Does a page know what of it must be drawn anew, and who was to blame at the moment that is looked at?"""

import pytest

from dashboards.address import Address
from dashboards.glance import Glance
from dashboards.views.seen import Seen
from tests.dashboards.world import JOB, STALL, changed


def _seen(at: float = 1_800_000_000.0, address: dict[str, str] | None = None, **now: object) -> Seen:
    told = {"at": at, "job_id": "ads", "job": JOB, "hub_answers": True, "prometheus_answers": True, **now}
    return Seen(Glance(**told), Address.read(address or {"range": "6h"}), None, None)


def test_charts_stand_while_a_refresh_has_nothing_new_for_them():
    stands = _seen(findings=(STALL,), past=(STALL,)).standing
    later = changed(STALL, lost_gpu_hours=7.0, summary="rank 1 has not moved for 9 s")
    assert _seen(1_800_000_002.0, findings=(later,), past=(later,), job=changed(JOB, step=99)).standing == stands


@pytest.mark.parametrize(
    "other",
    [
        {"at": 1_800_000_090.0},  # a point is due
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
    assert _seen(**other).standing != _seen().standing


@pytest.mark.parametrize("at", ["", "1700000000"])
def test_who_is_to_blame_now_is_marked_on_what_is_now_alone(at, monkeypatch):
    finding = changed(STALL, onset=1.79e9, resolved=None)
    now = Glance(at=1.8e9, job_id="ads", findings=(finding,), past=(finding,))
    assert bool(Seen(now, Address.read({"at": at}), None, None).findings) is not bool(at)


def test_charts_of_a_young_job_begin_with_it_and_show_all_of_it():
    seen = _seen(job=changed(JOB, time={"init": 100.0, "forward": 300.0}), address={"range": "6h"})
    assert seen.begin(seen.span) == seen.now.at - 400
    assert seen.span.end - seen.span.start == 900


@pytest.mark.parametrize("then", [{"state": "done"}, {"state": "exited"}, {"time": {}}])
def test_when_a_job_began_that_has_ended_nobody_says(then):
    seen = _seen(job=changed(changed(JOB, time={"forward": 400.0}), **then), address={"range": "6h"})
    assert seen.begin(seen.span) == seen.span.start == seen.span.end - 21_600


def test_nor_what_a_blind_hub_saw_last():
    seen = _seen(job=changed(JOB, time={"forward": 400.0}), hub_is_blind=True, address={"range": "6h"})
    assert seen.begin(seen.span) == seen.span.start
