"""Tests of boxes that cannot be read although their rank lives: the agent reports such a rank, and only such a rank."""

import os
import struct

from tests.build import JOB
from zmon.agent.sources.unread_boxes import MAX_UNREAD, RETRY_NS
from zmon.box.layout import MAGIC
from zmon.box.versions import CURRENT
from zmon.schema.measures import NS


def set_version(box, version):
    """Write another layout version into a box."""
    box.overwrite(len(MAGIC), struct.pack("<I", version))


def unread(boxes):
    """Return the job, the rank and the kind of each rank that cannot be read."""
    return [(rank.job_id, rank.rank, rank.kind) for rank in boxes.unread_ranks()]


def test_living_rank_with_a_box_of_a_newer_layout_is_reported_until_it_can_be_read(make_live_box, boxes, clock):
    box = make_live_box(3)
    set_version(box, CURRENT.version + 1)
    boxes.scan()
    (rank,) = boxes.unread_ranks()
    assert (rank.job_id, rank.rank, rank.kind) == (JOB, 3, "version")
    assert rank.seconds < 0.001
    assert f"layout version {CURRENT.version + 1}" in rank.reason
    clock.sleep(7)
    boxes.scan()
    assert boxes.unread_ranks()[0].seconds >= 7
    set_version(box, CURRENT.version)
    clock.sleep(RETRY_NS * NS + 1)
    boxes.scan()
    assert unread(boxes) == []
    assert len(list(boxes.ranks())) == 1


def test_damaged_box_of_a_living_rank_is_reported_until_the_rank_ends(make_live_box, boxes, clock):
    box = make_live_box()
    for offset in range(CURRENT.identity.offset, CURRENT.identity.end, 50):
        box.flip(offset)
    boxes.scan()
    assert unread(boxes) == [(JOB, 0, "damaged")]
    box.holder.end()
    clock.sleep(RETRY_NS * NS + 1)
    boxes.scan()
    assert unread(boxes) == []
    assert len(boxes.damaged) == 1


def test_dead_box_of_another_layout_and_a_file_that_nobody_holds_are_not_reported(make_live_box, boxes):
    box = make_live_box()
    set_version(box, CURRENT.version + 1)
    box.holder.end()
    (box.path.parent / "rank-9.box").write_bytes(b"")
    boxes.scan()
    assert unread(boxes) == []
    assert len(boxes.damaged) == 2


def test_folder_whose_name_is_no_job_id_is_not_reported(tmp_path, stand_in, boxes):
    folder = tmp_path / "no job\x1b[2J" / "0"
    folder.mkdir(parents=True)
    (folder / "rank-0.box").write_bytes(b"x")
    stand_in().hold(folder / "rank-0.box")
    boxes.scan()
    assert unread(boxes) == []
    (reason,) = boxes.read().dropped
    assert "no job\\x1b[2J" in reason


def test_names_that_are_not_utf_8_and_pipes_are_set_aside_with_plain_reasons(make_live_box, boxes):
    folder = make_live_box().path.parent
    (folder / os.fsdecode(b"rank-\xff.box")).write_bytes(b"")
    os.mkfifo(folder / "rank-8.box")
    boxes.scan()
    assert len(list(boxes.ranks())) == 1
    reasons = boxes.read().dropped
    assert len(reasons) == 2
    assert all(reason.isprintable() for reason in reasons)
    assert sum("rank-\ufffd.box" in reason for reason in reasons) == 1


def test_number_of_reported_ranks_is_limited(tmp_path, stand_in, boxes):
    process = stand_in()
    folder = tmp_path / JOB / "0"
    folder.mkdir(parents=True)
    for rank in range(MAX_UNREAD + 6):
        path = folder / f"rank-{rank}.box"
        path.write_bytes(b"x")
        process.hold(path)
    boxes.scan()
    assert len(boxes.unread_ranks()) == MAX_UNREAD
