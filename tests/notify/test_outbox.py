"""Tests of notices that are not sent yet: they wait longer after each failure, in order, and outlive a restart."""

import msgspec
import pytest

from tests.build import NOW
from zmon.notify import outbox as module
from zmon.notify.notices import OpenNotice
from zmon.notify.outbox import FILE, Outbox, UnsentNotice


@pytest.fixture
def unsent(notice):
    """Return a function that makes the notice with this number for a recipient."""
    return lambda number=1, to="ann": UnsentNotice(to, msgspec.structs.replace(notice, id=f"end {number}"), NOW)


def test_notice_is_added_once_for_each_recipient(unsent):
    outbox = Outbox(None)
    outbox.add([unsent(), unsent(to="bob")])
    outbox.add([unsent(), unsent(2)])
    assert [(entry.recipient, entry.notice.id) for entry in outbox.pending] == [
        ("ann", "end 1"), ("bob", "end 1"), ("ann", "end 2"),
    ]  # fmt: skip


def test_failure_of_one_recipient_holds_back_its_notices_only(unsent):
    outbox = Outbox(None)
    outbox.add([unsent(1), unsent(2), unsent(1, "bob")])
    outbox.record_failure(unsent(1), NOW, "no answer")
    assert outbox.due("ann", NOW) is None
    assert outbox.due("ann", NOW + 5.0).notice.id == "end 1"
    assert outbox.due("ann", NOW - 3600.0).notice.id == "end 1"  # the clock was set back
    assert outbox.due("bob", NOW).notice.id == "end 1"
    assert outbox.counts == {("ann", "failed"): 1}


def test_waits_double_up_to_ten_minutes(unsent):
    waiting = unsent()
    waits = []
    for _ in range(9):
        waiting = waiting.after_failure(NOW, "no answer")
        waits.append(waiting.due - NOW)
    assert waits == [5.0, 10.0, 20.0, 40.0, 80.0, 160.0, 320.0, 600.0, 600.0]


def test_notice_that_could_not_be_sent_for_a_day_is_dropped(unsent, caplog):
    outbox = Outbox(None)
    outbox.add([unsent()])
    outbox.record_failure(unsent(), NOW + module.GIVE_UP_SECONDS + 1.0, "no answer")
    assert outbox.pending == []
    assert outbox.counts["ann", "dropped"] == 1
    assert "a notice to ann is dropped (no answer): llm-7 failed after 3 h" in caplog.text


def test_oldest_ones_beyond_the_maximum_are_dropped(unsent, monkeypatch):
    monkeypatch.setattr(module, "MAX_PENDING", 2)
    outbox = Outbox(None)
    outbox.add([unsent(number) for number in range(4)])
    assert [entry.notice.id for entry in outbox.pending] == ["end 2", "end 3"]
    assert outbox.counts["ann", "dropped"] == 2


def test_pending_notices_outlive_a_restart(unsent, tmp_path):
    outbox = Outbox(tmp_path / FILE)
    outbox.add([unsent(1), unsent(2)])
    outbox.record_sent(unsent(1))
    outbox.open_notices = {"llm-7": OpenNotice("critical", {"team": "ads"})}
    outbox.save()
    again = Outbox(tmp_path / FILE)
    assert again.pending == [unsent(2)]
    assert again.open_notices == outbox.open_notices
    assert (tmp_path / FILE).stat().st_mode & 0o077 == 0


def test_damaged_file_begins_anew_with_a_line_in_the_log(tmp_path, caplog):
    (tmp_path / FILE).write_bytes(b"{")
    assert Outbox(tmp_path / FILE).pending == []
    assert "cannot use" in caplog.text


def test_full_disk_is_logged(unsent, tmp_path, caplog):
    outbox = Outbox(tmp_path / "none" / "file" / FILE)
    (tmp_path / "none").write_text("")
    outbox.add([unsent()])
    outbox.save()
    assert "cannot write" in caplog.text
