"""Tests of plan files. Only complete, valid plans of the current launch are used."""

import os

import pytest

from tests.boxes import IDENTITY
from zmon.probe.plan_file import encode_plan, write_plan
from zmon.schema.plan import MAX_PLAN_BYTES

UID = IDENTITY.run_uid
RANKS = [{"lookups": number, "tables": [f"t{number}"]} for number in range(8)]


@pytest.fixture
def read_plans(boxes):
    """Return a function that scans the boxes and returns the plans by the rank that wrote them."""

    def scan_and_read():
        boxes.scan()
        return {state.rank: plan for box, state in boxes.ranks() if (plan := boxes.plan(box))}

    return scan_and_read


def test_plan_belongs_to_the_rank_beside_its_file(make_live_box, read_plans):
    box = make_live_box(0)
    make_live_box(1, run_uid="aa" * 16)
    assert read_plans() == {}
    write_plan(box.path, UID, 8, RANKS, {"speed": 2.0})
    plans = read_plans()
    assert list(plans) == [0]
    plan = plans[0].plan
    assert plan.lookups == tuple(range(8))
    assert plan.tables[3] == ("t3",)
    assert plan.totals == {"speed": 2.0}


def test_plan_may_have_only_the_number_of_steps(make_live_box, read_plans):
    write_plan(make_live_box(0).path, UID, 8, None, {}, steps=50_000)
    plan = read_plans()[0].plan
    assert (plan.steps, plan.lookups, plan.totals) == (50_000, (), {})


def test_plan_is_read_again_only_after_a_change(make_live_box, read_plans, monkeypatch):
    box = make_live_box(0)
    real_open, paths = os.open, []

    def note_and_open(path, *arguments, **options):
        paths.append(str(path))
        return real_open(path, *arguments, **options)

    write_plan(box.path, UID, 8, RANKS, {})
    monkeypatch.setattr(os, "open", note_and_open)
    first = read_plans()[0].plan
    assert read_plans()[0].plan is first
    write_plan(box.path, UID, 8, [{"lookups": 9}] * 8, {})
    assert read_plans()[0].plan.lookups == (9,) * 8
    assert sum(path.endswith("/plan.json") for path in paths) == 2


def test_plan_of_an_earlier_start_is_ignored(make_live_box, read_plans, boxes):
    box = make_live_box(0)
    write_plan(box.path, "ab" * 16, 8, RANKS, {})
    assert read_plans() == {}
    assert boxes.damaged == {}


VALID = encode_plan(UID, 8, RANKS, {})
INVALID = {
    "empty": b"",
    "cut off": VALID[:-9],
    "no text": b"\xff\x00" * 50,
    "deeply nested": b"[" * 100_000,
    "another schema": VALID.replace(b'"schema":1', b'"schema":2'),
    "columns of different lengths": VALID.replace(b"[0,1,2", b"[0,1"),
    "negative number of lookups": VALID.replace(b"[0,1,2", b"[0,-1,2"),
    "number of lookups with 30 digits": VALID.replace(b"[0,1,2", b"[0," + b"9" * 30 + b",2"),
    "name with a line break": VALID.replace(b'"t3"', b'"t\\n3"'),
    "too long": VALID + b" " * MAX_PLAN_BYTES,
}


@pytest.mark.parametrize(
    "make_invalid",
    [
        *(pytest.param(lambda path, text=text: path.write_bytes(text), id=name) for name, text in INVALID.items()),
        pytest.param(lambda path: path.symlink_to("/etc/hostname"), id="link"),
        pytest.param(lambda path: path.mkdir(), id="directory"),
    ],
)
def test_invalid_plan_is_reported_once_and_ignored_until_changed(
    make_live_box, read_plans, boxes, make_invalid, caplog
):
    box = make_live_box(0)
    path = box.path.with_name("plan.json")
    make_invalid(path)
    for _ in range(3):
        assert read_plans() == {}
    assert list(boxes.damaged) == [path]
    assert str(path) in boxes.damaged[path]
    assert len(caplog.records) == 1
    if path.is_dir():
        path.rmdir()
    else:
        path.unlink()
    write_plan(box.path, UID, 8, RANKS, {})
    assert list(read_plans()) == [0]
    assert boxes.damaged == {}


def test_plan_is_deleted_with_the_last_box_of_its_launch(boxes, make_live_box, clock, read_plans, tmp_path):
    ranks = [make_live_box(number, run_uid=f"{number:02x}" * 16) for number in range(2)]
    write_plan(ranks[0].path, ranks[0].who.run_uid, 8, RANKS, {})
    ranks[0].path.with_name(".plan.json.1.abcd").write_text("half of a plan")
    assert list(read_plans()) == [0]
    for rank in ranks:
        rank.holder.end()
    read_plans()
    clock.sleep(1000)
    boxes.scan()
    boxes.prune()
    assert list(tmp_path.iterdir()) == []
