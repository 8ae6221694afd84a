"""Tests of `zmon demo --replay`: what it prints, what the hub finds, and that nothing is left of it."""

from __future__ import annotations

import re
import signal
import tempfile
import time
from pathlib import Path

import pytest
import requests

from tests.cli.running_demo import Demo
from tests.e2e.running_stack import wait_for

pytestmark = [pytest.mark.e2e, pytest.mark.slow]  # the hub judges the same recordings in tests/stack/replay

FINDING_SECONDS = 60.0  # on a busy machine; about 15 s on an idle one


def test_replayed_fault_is_on_the_hub_and_in_prometheus(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TMPDIR", str(directory))
    monkeypatch.setattr(tempfile, "tempdir", None)
    demo = Demo(directory, "--replay", "frozen-rank")
    wait_for("the finding is printed", lambda: "CRITICAL rank_frozen" in demo.text, FINDING_SECONDS)
    assert "This is a recording of a real job" in demo.text
    hub, prometheus = (re.search(rf"{name} .*?(http://[\d.:]+)", demo.text)[1] for name in ("hub", "Prometheus"))
    findings = requests.get(f"{hub}/api/v1/findings", timeout=5).json()["findings"]
    # A busy machine plays the recording with gaps, of which the hub may say more.
    causes = [(finding["job_id"], finding["cause"], finding["ranks"]) for finding in findings]
    assert ("recorded-frozen-rank", "rank_frozen", [2]) in causes
    query = {"query": 'zmon_finding{job_id="recorded-frozen-rank",cause="rank_frozen"}'}
    wait_for(
        "Prometheus has it",
        lambda: requests.get(f"{prometheus}/api/v1/query", params=query, timeout=5).json()["data"]["result"],
        10,
    )
    demo.process.send_signal(signal.SIGINT)
    interrupted = time.monotonic()
    assert demo.process.wait(timeout=10) == 0
    assert time.monotonic() - interrupted < 5
    assert demo.left_behind() == []
    assert not [*directory.glob("zmon-replay-*")]
