"""`zmon demo` from beginning to end: the summary, Ctrl-C, bad data; nothing is left behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from tests.e2e.standing import wait_for
from tests.places import REPOSITORY


class Demo:
    """A demo in a room of its own; its processes are told by an environment variable."""

    def __init__(self, room: Path, *arguments: str) -> None:
        self.room = room
        self.output = room / "out.txt"
        self.env = {
            **os.environ,
            "ZMON_DATA_DIR": str(room / "data"),
            "ZMON_BOX_DIR": str(room / "boxes"),
            "ZMON_TEST_ROOM": str(room),
            "PYTHONPATH": str(REPOSITORY),
        }
        with self.output.open("wb") as out:
            command = [sys.executable, "-m", "zmon", "demo", *arguments]
            self.process = subprocess.Popen(command, env=self.env, stdout=out, stderr=out)

    @property
    def text(self) -> str:
        """What it printed so far."""
        return self.output.read_text()

    def left_behind(self) -> list[str]:
        """Command lines of processes that belong to it and live."""
        found = []
        for process in psutil.process_iter():
            try:
                if process.environ().get("ZMON_TEST_ROOM") == str(self.room) and process.status() != "zombie":
                    found.append(" ".join(process.cmdline()))
            except (psutil.NoSuchProcess, psutil.AccessDenied):
                continue
        return found


@pytest.fixture
def room(tmp_path: Path) -> Iterator[Path]:
    """Whatever a failed test leaves running is ended."""
    yield tmp_path
    for process in psutil.process_iter():
        try:
            if process.environ().get("ZMON_TEST_ROOM") == str(tmp_path):
                process.kill()
        except (psutil.NoSuchProcess, psutil.AccessDenied):
            continue


def criteo_row(number: int) -> str:
    """A well-formed row."""
    integers = [str(number % 7 + i) for i in range(13)]
    categories = [f"{number * 31 + i:08x}" for i in range(26)]
    return "\t".join([str(int(number % 3 == 0)), *integers, *categories])


def assert_summed_up(demo: Demo) -> None:
    """It ends by itself, says how it went, and leaves nothing."""
    assert demo.process.wait(timeout=60) == 0, demo.text
    assert "Summary" in demo.text
    assert "time in all_to_all" in demo.text
    assert "findings" in demo.text
    assert demo.left_behind() == []


@pytest.mark.slow  # the one with a file ends in the same way
def test_demo_ends_by_itself_with_a_summary(room: Path) -> None:
    assert_summed_up(Demo(room, "--seconds", "30"))


def test_demo_with_a_file_skips_and_names_a_malformed_row(room: Path) -> None:
    data = room / "rows.tsv"
    rows = [criteo_row(number) for number in range(40)]
    rows[6] = rows[6].replace("\t", "\tnonsense", 1)
    data.write_text("\n".join(rows) + "\n")
    demo = Demo(room, "--seconds", "30", "--ranks", "2", "--data", str(data))
    assert_summed_up(demo)
    assert f"trainer: {data}:7: column 2: " in demo.text
    assert "1 malformed of 40 rows skipped" in demo.text


def test_ctrl_c_ends_everything_within_five_seconds_even_with_a_stopped_rank(room: Path) -> None:
    demo = Demo(room)
    wait_for("the demo trains", lambda: "samples/s" in demo.text, 60)
    ranks = [p for p in psutil.Process(demo.process.pid).children(recursive=True) if p.environ().get("RANK") == "1"]
    ranks[0].suspend()
    demo.process.send_signal(signal.SIGINT)
    asked = time.monotonic()
    assert demo.process.wait(timeout=10) == 0
    assert time.monotonic() - asked < 5
    assert demo.left_behind() == []


def test_demo_says_in_one_line_why_the_trainer_cannot_start(room: Path) -> None:
    (room / "junk.tsv").write_text("junk\n")
    demo = Demo(room, "--data", str(room / "junk.tsv"))
    assert demo.process.wait(timeout=60) == 1
    assert "junk.tsv has no valid row: all 1 rows are malformed" in demo.text
    assert "Traceback" not in demo.text
    assert demo.left_behind() == []


def test_second_demo_on_the_same_data_is_refused(room: Path) -> None:
    demo = Demo(room, "--seconds", "20")
    wait_for("the first demo is up", lambda: (room / "data/lock").exists(), 20)
    second = subprocess.run(
        [sys.executable, "-m", "zmon", "up"], env=demo.env, capture_output=True, text=True, timeout=20, check=False
    )
    assert second.returncode == 2
    assert second.stderr.count("\n") == 1
    assert "is in use" in second.stderr
    demo.process.send_signal(signal.SIGINT)
    demo.process.wait(timeout=10)
