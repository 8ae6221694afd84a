"""The trainers' plans as the agent reads them: whole, of this start, and nothing that is none."""

import os

import pytest

from tests.boxes import IDENTITY
from zmon.probe.plan_file import encoded, write_plan
from zmon.schema.plan import MOST_PLAN_BYTES

UID = IDENTITY.run_uid
RANKS = [{"lookups": number, "tables": [f"t{number}"]} for number in range(8)]


@pytest.fixture
def look(boxes):
    """What each rank has told, as of a fresh look: uid and plan by rank."""

    def told():
        boxes.look()
        return {state.rank: one for box, state in boxes.ranks() if (one := boxes.plan(box))}

    return told


def test_plan_is_told_of_the_rank_that_wrote_it(live, look):
    box = live(0)
    live(1, run_uid="aa" * 16)
    assert look() == {}
    write_plan(box.path, UID, 8, RANKS, {"speed": 2.0})
    told = look()
    assert list(told) == [0]
    assert told[0].plan.lookups == tuple(range(8))
    assert told[0].plan.tables[3] == ("t3",)
    assert told[0].plan.totals == {"speed": 2.0}


def test_plan_is_read_again_only_when_it_changes(live, look, monkeypatch):
    box, opened, open_ = live(0), [], os.open

    def counting(path, *arguments, **more):
        opened.append(str(path))
        return open_(path, *arguments, **more)

    write_plan(box.path, UID, 8, RANKS, {})
    monkeypatch.setattr(os, "open", counting)
    first = look()[0].plan
    assert look()[0].plan is first
    write_plan(box.path, UID, 8, [{"lookups": 9}] * 8, {})
    assert look()[0].plan.lookups == (9,) * 8
    assert sum(path.endswith("/plan.json") for path in opened) == 2


def test_plan_that_an_earlier_start_left_there_is_not_told(live, look, boxes):
    box = live(0)
    write_plan(box.path, "ab" * 16, 8, RANKS, {})
    assert look() == {}
    assert boxes.damaged == {}


BAD = {
    "nothing": b"",
    "torn": encoded(UID, 8, RANKS, {})[:-9],
    "bytes": b"\xff\x00" * 50,
    "nested": b"[" * 100_000,
    "another schema": encoded(UID, 8, RANKS, {}).replace(b'"schema":1', b'"schema":2'),
    "columns apart": encoded(UID, 8, RANKS, {}).replace(b"[0,1,2", b"[0,1"),
    "below nothing": encoded(UID, 8, RANKS, {}).replace(b"[0,1,2", b"[0,-1,2"),
    "beyond all": encoded(UID, 8, RANKS, {}).replace(b"[0,1,2", b"[0,1e18,2").replace(b"1e18", b"9" * 30),
    "no name": encoded(UID, 8, RANKS, {}).replace(b'"t3"', b'"t\\n3"'),
    "too long": encoded(UID, 8, RANKS, {}) + b" " * MOST_PLAN_BYTES,
    "link": None,
    "directory": None,
}


@pytest.mark.parametrize("what", BAD)
def test_what_is_no_plan_is_reported_once_and_left_aside_until_it_changes(live, look, boxes, what, caplog):
    box = live(0)
    path = box.path.with_name("plan.json")
    if what == "link":
        path.symlink_to("/etc/hostname")
    elif what == "directory":
        path.mkdir()
    else:
        path.write_bytes(BAD[what])
    for _ in range(3):
        assert look() == {}
    assert list(boxes.damaged) == [path]
    assert str(path) in boxes.damaged[path]
    assert len(caplog.records) == 1
    path.rmdir() if what == "directory" else path.unlink()
    write_plan(box.path, UID, 8, RANKS, {})
    assert list(look()) == [0]
    assert boxes.damaged == {}


def test_plan_goes_with_the_last_box_of_its_start(boxes, live, clock, look, tmp_path):
    ranks = [live(number, run_uid=f"{number:02x}" * 16) for number in range(2)]
    write_plan(ranks[0].path, ranks[0].who.run_uid, 8, RANKS, {})
    ranks[0].path.with_name(".plan.json.1.abcd").write_text("half of")
    assert list(look()) == [0]
    for rank in ranks:
        rank.process.end()
    look()
    clock.sleep(1000)
    boxes.look()
    boxes.prune()
    assert list(tmp_path.iterdir()) == []
