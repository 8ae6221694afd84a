"""Tests of `zmon demo`: its summary, Ctrl-C, bad data, and a second stack. No process of an ended demo is left."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from tests.cli.running_demo import Demo
from tests.e2e.running_stack import wait_for

pytestmark = pytest.mark.e2e  # not in tests/e2e, because the stack of those tests would compete for processors


def criteo_row(number: int) -> str:
    """Return a well-formed row."""
    integers = [str(number % 7 + i) for i in range(13)]
    categories = [f"{number * 31 + i:08x}" for i in range(26)]
    return "\t".join([str(int(number % 3 == 0)), *integers, *categories])


@pytest.mark.slow  # it trains for half a minute
def test_demo_with_file_skips_and_reports_malformed_row(directory: Path) -> None:
    data = directory / "rows.tsv"
    rows = [criteo_row(number) for number in range(40)]
    rows[6] = rows[6].replace("\t", "\tnonsense", 1)
    data.write_text("\n".join(rows) + "\n")
    demo = Demo(directory, "--seconds", "30", "--ranks", "2", "--data", str(data))
    assert demo.process.wait(timeout=60) == 0, demo.text
    for part in ("Summary", "time in all_to_all", "findings"):
        assert part in demo.text
    assert f"trainer: {data}:7: column 2: " in demo.text
    assert "1 malformed of 40 rows skipped" in demo.text
    assert demo.left_behind() == []


@pytest.mark.slow  # another demo starts in every run
def test_ctrl_c_ends_demo_with_stopped_rank_within_five_seconds(directory: Path) -> None:
    demo = Demo(directory)
    wait_for("the demo trains", lambda: "samples/s" in demo.text, 60)
    ranks = [p for p in psutil.Process(demo.process.pid).children(recursive=True) if p.environ().get("RANK") == "1"]
    ranks[0].suspend()
    demo.process.send_signal(signal.SIGINT)
    interrupted = time.monotonic()
    assert demo.process.wait(timeout=10) == 0
    assert time.monotonic() - interrupted < 5
    assert demo.left_behind() == []


@pytest.mark.slow  # the trainer's own tests cover each of its errors
def test_demo_reports_why_trainer_cannot_start_without_traceback(directory: Path) -> None:
    (directory / "junk.tsv").write_text("junk\n")
    demo = Demo(directory, "--data", str(directory / "junk.tsv"))
    assert demo.process.wait(timeout=60) == 1
    assert "junk.tsv has no valid row: all 1 rows are malformed" in demo.text
    assert "Traceback" not in demo.text
    assert demo.left_behind() == []


def test_second_stack_on_data_of_running_demo_is_refused(directory: Path) -> None:
    demo = Demo(directory, "--seconds", "20")
    wait_for("the first demo is up", lambda: (directory / "data/lock").exists(), 20)
    second = subprocess.run(
        [sys.executable, "-m", "zmon", "up"], env=demo.env, capture_output=True, text=True, timeout=20, check=False
    )
    assert second.returncode == 2
    assert second.stderr.count("\n") == 1
    assert "is in use" in second.stderr
    demo.process.send_signal(signal.SIGINT)
    demo.process.wait(timeout=10)
