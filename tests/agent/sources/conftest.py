"""Fixtures for boxes that another process locks, as a living rank does, on a clock that the test sets."""

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.agent.sources.nvml import Stub
from tests.agent.sources.tcp_host import FakeHost
from tests.agent.sources.trees import FakeSys
from tests.boxes import Box, Clock
from zmon.agent.sources.boxes import Boxes
from zmon.box.roots import Places


@pytest.fixture
def tmp_path() -> Iterator[Path]:
    """Yield a folder with a short path. The path of pytest's folder, under xdist, is too long for a socket."""
    with tempfile.TemporaryDirectory(prefix="zmon-") as folder:
        yield Path(folder)


@pytest.fixture
def places(tmp_path):
    """Return the places of the directories of all users, which are empty."""
    (tmp_path / "run").mkdir()
    (tmp_path / "shm").mkdir()
    return Places(tmp_path / "run", tmp_path / "shm")


@pytest.fixture
def clock():
    """Return a clock that moves only when the test moves it."""
    return Clock()


@pytest.fixture
def make_live_box(tmp_path, clock, stand_in):
    """Return a function that makes a box which another process locks, as a living rank does."""

    def make(rank=0, **identity):
        process = stand_in()
        return Box(tmp_path, clock, {"rank": rank, "world_size": 8, "pid": process.pid, **identity}, process)

    return make


@pytest.fixture(autouse=True)
def _close_boxes():
    """Close all boxes after a test, as an agent does: a worker of xdist runs thousands of tests."""
    construct, made = Boxes.__init__, []

    def construct_and_note(self, *arguments, **options):
        made.append(self)
        construct(self, *arguments, **options)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Boxes, "__init__", construct_and_note)
        yield
    for boxes in made:
        boxes.close()


@pytest.fixture
def boxes(tmp_path, clock):
    """Return the boxes in the folder of the test, as the agent of node-a reads them."""
    return Boxes(tmp_path, "node-a", clock=clock)


@pytest.fixture
def scan_states(boxes):
    """Return a function that scans the boxes and returns the state of each rank."""

    def scan_and_read():
        boxes.scan()
        return {state.rank: state for _, state in boxes.ranks()}

    return scan_and_read


@pytest.fixture
def scan_during(boxes, clock):
    """Return a function that lets seconds pass, scans every half second as a busy agent does, and returns suspects."""

    def scan(seconds):
        while seconds > 0:
            clock.sleep(min(seconds, 0.5))
            seconds -= 0.5
            suspects = boxes.scan()
        return suspects

    return scan


@pytest.fixture
def fake_nvml(tmp_path, monkeypatch):
    """Return a driver with a card; each card is near the network card of its own address."""
    monkeypatch.setattr("zmon.agent.sources.pci.nearest_nics", lambda sys, pci: (f"mlx5_0 of {pci}",))
    return Stub(tmp_path, monkeypatch)


@pytest.fixture
def old_nvml(tmp_path, monkeypatch):
    """Return a driver whose library lacks the functions of newer ones."""
    monkeypatch.setattr("zmon.agent.sources.pci.nearest_nics", lambda sys, pci: ())
    return Stub(tmp_path, monkeypatch, "-DOLD")


@pytest.fixture
def fake_sys(tmp_path):
    """Return a fake /sys, which is empty."""
    return FakeSys(tmp_path)


@pytest.fixture
def host(tmp_path):
    """Return a fake host for ranks and TCP connections, which has none yet."""
    return FakeHost(tmp_path)
