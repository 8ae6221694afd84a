"""Which XID errors did each GPU raise? Asked without waiting; a card that has no events hides no other's."""

import pynvml
import pytest

from tests.agent.sources.nvml import NOT_SUPPORTED, UNKNOWN, Stub
from zmon.agent.sources import nvml as edge
from zmon.agent.sources.xid import XidCounts


@pytest.fixture
def nvml(tmp_path, monkeypatch):
    return Stub(tmp_path, monkeypatch)


@pytest.fixture
def xids(nvml):
    counts = XidCounts()
    watch(counts)
    return counts


def watch(counts):
    edge.load()
    for card in range(2):
        counts.watch(f"GPU-{card}", pynvml.nvmlDeviceGetHandleByIndex(card))
    assert list(counts.collect()) == []


def test_card_without_errors_has_none(xids):
    assert (xids.of("GPU-0"), xids.of("GPU-1")) == ({}, {})


def test_errors_are_counted_by_card_and_number_and_each_once(nvml, xids):
    nvml.tell(("driver", "xids", "0:79,1:48,1:48"))
    list(xids.collect())
    nvml.tell(("driver", "xids", "0:79,1:48,1:48,1:31"))
    for _ in range(2):
        assert list(xids.collect()) == []
    assert (xids.of("GPU-0"), xids.of("GPU-1")) == ({79: 1}, {48: 2, 31: 1})


def test_look_ends_when_there_is_nothing_to_tell(nvml, xids):
    before = nvml.calls("driver", "nvmlEventSetWait_v2")
    list(xids.collect())
    assert nvml.calls("driver", "nvmlEventSetWait_v2") == before + 1


def test_storm_of_errors_goes_on_at_the_next_look(nvml, xids, monkeypatch):
    monkeypatch.setattr("zmon.agent.sources.xid.MOST_EVENTS", 2)
    nvml.tell(("driver", "xids", "0:31,0:31,0:31"))
    list(xids.collect())
    assert xids.of("GPU-0") == {31: 2}
    list(xids.collect())
    assert xids.of("GPU-0") == {31: 3}


@pytest.mark.parametrize("answer", [NOT_SUPPORTED, "!15"])
def test_card_that_has_no_events_or_is_lost_is_not_watched_and_hides_no_other(nvml, answer):
    nvml.tell(("0", "nvmlDeviceRegisterEvents", answer), ("driver", "xids", "1:48"))
    counts = XidCounts()
    watch(counts)
    list(counts.collect())
    assert (counts.of("GPU-1"), nvml.calls("0", "nvmlDeviceRegisterEvents")) == ({48: 1}, 1)


def test_card_that_cannot_be_watched_is_said_once(nvml):
    nvml.tell(("0", "nvmlDeviceRegisterEvents", UNKNOWN), ("driver", "xids", "1:48"))
    counts = XidCounts()
    edge.load()
    for card in range(2):
        counts.watch(f"GPU-{card}", pynvml.nvmlDeviceGetHandleByIndex(card))
    lines = list(counts.collect()) + list(counts.collect())
    assert lines == ["XID errors of GPU-0: cannot be watched: Unknown Error"]
    assert counts.of("GPU-1") == {48: 1}


@pytest.mark.parametrize("function", ["nvmlEventSetCreate", "nvmlEventSetWait_v2"])
def test_driver_without_events_is_not_asked_again(nvml, function):
    nvml.tell(("driver", function, NOT_SUPPORTED))
    counts = XidCounts()
    watch(counts)
    assert list(counts.collect()) == []
    assert nvml.calls("driver", function) == 1


def test_set_that_a_lost_card_spoiled_is_made_anew_without_it(nvml, xids):
    nvml.tell(("driver", "nvmlEventSetWait_v2", "!15"), ("0", "lost", 1))
    assert list(xids.collect()) == ["XID errors: cannot be asked for: GPU is lost"]
    nvml.untell(("driver", "nvmlEventSetWait_v2"))
    nvml.tell(("driver", "xids", "1:48"))
    assert list(xids.collect()) == []
    assert xids.of("GPU-1") == {48: 1}
    assert nvml.calls("driver", "nvmlEventSetFree") == 1


def test_counts_outlive_the_driver(nvml, xids):
    nvml.tell(("driver", "xids", "0:79"))
    list(xids.collect())
    xids.forget()
    edge.unload()
    watch(xids)
    nvml.tell(("driver", "xids", "0:79,0:79"))
    list(xids.collect())
    assert xids.of("GPU-0") == {79: 2}


def test_driver_that_is_gone_is_for_the_source_to_tell(nvml, xids):
    nvml.tell(("driver", "error", 9))
    with pytest.raises(edge.GONE):
        list(xids.collect())
