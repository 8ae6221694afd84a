"""Tests of XID errors by GPU. They are read without waiting, and a card without events hides no other card."""

import pynvml
import pytest

from tests.agent.sources.nvml import DRIVER_NOT_LOADED, GPU_IS_LOST, NOT_SUPPORTED, UNKNOWN
from zmon.agent.sources import nvml
from zmon.agent.sources.xid import XidCounts


@pytest.fixture
def xids(fake_nvml):
    """Return the counts of XID errors of two cards."""
    return watch_two_cards()


def watch_two_cards(xids=None, complaints=()):
    """Watch two cards, and check that the first read of events has these complaints; return the counts.

    `xids`: counts to go on with after the driver was reloaded.
    """
    nvml.load()
    xids = xids or XidCounts()
    for card in range(2):
        xids.watch(f"GPU-{card}", pynvml.nvmlDeviceGetHandleByIndex(card))
    assert list(xids.collect()) == list(complaints)
    return xids


def test_errors_are_counted_once_by_card_and_number(fake_nvml, xids):
    assert (xids.counts("GPU-0"), xids.counts("GPU-1")) == ({}, {})
    fake_nvml.set_answers(("driver", "xids", "0:79,1:48,1:48"))
    list(xids.collect())
    fake_nvml.set_answers(("driver", "xids", "0:79,1:48,1:48,1:31"))
    for _ in range(2):
        assert list(xids.collect()) == []
    assert (xids.counts("GPU-0"), xids.counts("GPU-1")) == ({79: 1}, {48: 2, 31: 1})


def test_events_above_the_limit_are_read_at_the_next_collect(fake_nvml, xids, monkeypatch):
    monkeypatch.setattr("zmon.agent.sources.xid.MAX_EVENTS", 2)
    fake_nvml.set_answers(("driver", "xids", "0:31,0:31,0:31"))
    list(xids.collect())
    assert xids.counts("GPU-0") == {31: 2}
    list(xids.collect())
    assert xids.counts("GPU-0") == {31: 3}


@pytest.mark.parametrize("answer", [NOT_SUPPORTED, GPU_IS_LOST])
def test_lost_card_or_card_without_events_is_not_watched(fake_nvml, answer):
    fake_nvml.set_answers(("0", "nvmlDeviceRegisterEvents", answer), ("driver", "xids", "1:48"))
    xids = watch_two_cards()
    list(xids.collect())
    assert (xids.counts("GPU-1"), fake_nvml.calls("0", "nvmlDeviceRegisterEvents")) == ({48: 1}, 1)


def test_card_that_cannot_be_watched_is_reported_once(fake_nvml):
    fake_nvml.set_answers(("0", "nvmlDeviceRegisterEvents", UNKNOWN), ("driver", "xids", "1:48"))
    xids = watch_two_cards(complaints=["XID errors of GPU-0: cannot register for events: Unknown Error"])
    assert list(xids.collect()) == []
    assert xids.counts("GPU-1") == {48: 1}


@pytest.mark.parametrize("function", ["nvmlEventSetCreate", "nvmlEventSetWait_v2"])
def test_driver_without_events_is_not_queried_again(fake_nvml, function):
    fake_nvml.set_answers(("driver", function, NOT_SUPPORTED))
    xids = watch_two_cards()
    assert list(xids.collect()) == []
    assert fake_nvml.calls("driver", function) == 1


def test_event_set_that_fails_is_replaced(fake_nvml, xids):
    fake_nvml.set_answers(("driver", "nvmlEventSetWait_v2", GPU_IS_LOST), ("0", "lost", 1))
    assert list(xids.collect()) == ["XID errors: cannot read the event set: GPU is lost"]
    fake_nvml.reset_answers(("driver", "nvmlEventSetWait_v2"))
    fake_nvml.set_answers(("driver", "xids", "1:48"))
    assert list(xids.collect()) == []
    assert xids.counts("GPU-1") == {48: 1}
    assert fake_nvml.calls("driver", "nvmlEventSetFree") == 1


def test_counts_continue_after_the_driver_was_reloaded(fake_nvml, xids):
    fake_nvml.set_answers(("driver", "xids", "0:79"))
    list(xids.collect())
    xids.forget()
    nvml.unload()
    watch_two_cards(xids)
    fake_nvml.set_answers(("driver", "xids", "0:79,0:79"))
    list(xids.collect())
    assert xids.counts("GPU-0") == {79: 2}


def test_unloaded_driver_raises(fake_nvml, xids):
    fake_nvml.set_answers(("driver", "error", DRIVER_NOT_LOADED))
    with pytest.raises(nvml.GONE):
        list(xids.collect())
