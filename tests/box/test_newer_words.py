"""Tests of a box whose words only a newer zmon knows, and of text in a box that is not plain."""

from dataclasses import replace

import pytest

from tests.boxes import IDENTITY
from zmon.box import layout
from zmon.errors import BoxCorrupt, BoxRefused
from zmon.schema.limits import MAX_WORLD_SIZE

UNKNOWN_OP = 12  # this version has fewer ops
# Time in nanoseconds, kind, whether it was in a collective, type, message, frame and root cause.
WORDS_OF_KIND_9 = (5, 9, False, b"kernel", b"out of memory", b"", b"")


def write_state(box, activity, phase, op=layout.NONE, group=layout.NONE):
    """Write a state as the rank does, with any numbers."""
    box.clock.sleep(1)
    since = box.clock()
    for slot in layout.STATE_SLOTS:
        box.writer.live[slot] = since
        box.writer.live[slot + 1] = (
            layout.STATE_KEY + layout.STATE_PRIME * layout.state(activity, phase, op, group) - since
        )


def test_unknown_activity_becomes_text(box, reader):
    write_state(box, activity=7, phase=1)
    now = reader.now()
    assert (now.activity, now.phase, now.op) == ("activity-7", "h2d", None)


def test_unknown_op_becomes_text(box, reader):
    group = box.timeline.group("0", 2)
    box.timeline.begin_step(None)
    box.timeline.enter_op(0, group, 100, 60)
    word = box.writer.live[layout.ENTERED]
    box.writer.number(layout.ENTERED, word | UNKNOWN_OP << layout.LABEL_SHIFT)
    write_state(box, activity=1, phase=0, op=UNKNOWN_OP, group=group)
    assert (reader.now().op, reader.now().num_bytes) == ("op-12", 160)
    assert [entered.op for entered in reader.entered()] == [UNKNOWN_OP]


def test_unknown_kind_of_last_words_becomes_text(box, reader):
    box.writer._words(*WORDS_OF_KIND_9)
    assert (reader.words().kind, reader.words().message) == ("kind-9", "out of memory")


@pytest.mark.parametrize(
    ("claim", "reason"),
    [
        ({"world_size": 2_000_000_000}, "claims a world of 2,000,000,000 ranks"),
        ({"world_size": MAX_WORLD_SIZE + 1}, "claims a world"),
        ({"world_size": 0}, "claims a world"),
        ({"world_size": -5}, "claims a world"),
        ({"rank": 2, "world_size": 2}, "claims to be rank 2 of 2"),
        ({"rank": -1}, "claims to be rank -1"),
    ],
)
def test_impossible_claim_is_refused_and_names_the_job(box, reader, claim, reason):
    box.writer.identity(replace(IDENTITY, world_size=MAX_WORLD_SIZE))
    assert reader.identity().world_size == MAX_WORLD_SIZE
    box.writer.identity(replace(IDENTITY, **claim))
    with pytest.raises(BoxRefused, match=reason) as caught:
        reader.identity()
    assert "its identity" in str(caught.value)
    assert "in job job" in str(caught.value)
    assert isinstance(caught.value, BoxCorrupt)


def test_texts_of_a_box_are_plain(box, reader):
    box.writer.identity(
        replace(
            IDENTITY, labels={"owner": "M\udcfcller", "a\nb": "\x1b[2J"}, device="cuda\x1b:0", role="\u202ea",
            backend="gl\noo", socket="/tmp/\x07",
        )
    )  # fmt: skip
    box.writer.report(b"lo\x1b[31mss\n", 1.0, *[b"", 0.0] * (layout.MAX_REPORT_KEYS - 1))
    box.writer._words(5, 1, False, b"Value\nError", "a\x1b[31mb\nc\u2028".encode(), b"x\ny", b"r\ns")
    identity, words = reader.identity(), reader.words()
    assert identity.labels == {"owner": "M\ufffdller", "a b": "\\x1b[2J"}
    assert (identity.device, identity.role, identity.backend) == ("cuda\\x1b:0", "\\u202ea", "gl oo")
    assert identity.socket == "/tmp/\\x07"
    assert reader.report() == {"lo\\x1b[31mss ": 1.0}
    assert (words.type, words.message, words.where, words.root) == ("Value Error", "ab\nc\\u2028", "x y", "r\ns")


@pytest.mark.parametrize("number", [3_000_000_000, 10**20, -(10**20)])
def test_number_that_does_not_fit_is_still_written_and_refused_with_the_job(box, reader, number):
    """Without a box, nobody would learn of the job."""
    box.writer.identity(replace(IDENTITY, world_size=number, max_restarts=number))
    with pytest.raises(BoxRefused, match="in job job it claims a world"):
        reader.identity()
