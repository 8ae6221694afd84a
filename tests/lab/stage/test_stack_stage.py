"""Tests of the stack of a stage. Its processes end with the drill, and a failed supervisor is reported."""

import json
import os
import signal
import subprocess
import sys

import psutil
import pytest

from lab.stage import stack_stage
from lab.stage.launched import running
from tests.boxes import eventually
from zmon.errors import PartFailed

pytestmark = pytest.mark.drill

DRILL = """
import sys, time
from pathlib import Path
from lab.stage.host import OneHost
from lab.stage import JobSpec
stage = OneHost(Path(sys.argv[1]))
stage.start(JobSpec("job", ranks=1))
stage.supervisor().suspend()
print(stage.supervisor().pid, flush=True)
time.sleep(100)
"""


def is_alive(process):
    return process.is_running() and process.status() != psutil.STATUS_ZOMBIE


@pytest.mark.timeout(120)
def test_all_processes_end_after_the_drill_is_killed(tmp_path):
    env = os.environ | {"ZMON_WEBHOOK_WARNINGS": "http://127.0.0.1:1/", "ZMON_HUB_URL": "http://127.0.0.1:1"}
    with subprocess.Popen([sys.executable, "-c", DRILL, tmp_path], stdout=subprocess.PIPE, env=env) as drill:
        supervisor = psutil.Process(int(drill.stdout.readline()))
        stack = [supervisor, *supervisor.children()]
        assert len(stack) == 5  # Prometheus, Alertmanager, agent and hub: drills need no dashboard
        assert eventually(lambda: running(tmp_path), 5)
        assert not any("ZMON_WEBHOOK_WARNINGS" in process.environ() for process in stack)
        drill.send_signal(signal.SIGKILL)
    assert eventually(lambda: not any(map(is_alive, stack)), 15)
    assert not running(tmp_path)


@pytest.fixture
def start_stage(tmp_path, monkeypatch):
    """Return a function that starts a stage whose supervisor is a script."""
    monkeypatch.setattr(stack_stage, "find_program", lambda *_: "")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=os.pathsep)

    def start(script):
        (tmp_path / "supervising.py").write_text(script)
        return stack_stage.StackStage(tmp_path, "supervising", "host", {})

    return start


def test_failed_supervisor_is_reported_with_its_message(start_stage):
    with pytest.raises(PartFailed, match=r"did not start: no room\. see .*stack\.log"):
        start_stage("import sys; sys.exit('no room')")


def test_supervisor_ends_if_the_start_is_interrupted(start_stage, tmp_path, monkeypatch):
    def interrupted(_):
        if (tmp_path / "pid").exists():
            monkeypatch.undo()
            raise KeyboardInterrupt

    monkeypatch.setattr(stack_stage.time, "sleep", interrupted)
    with pytest.raises(KeyboardInterrupt):
        start_stage(
            f"import os, pathlib, sys; pathlib.Path({str(tmp_path)!r}, 'new').write_text(str(os.getpid()))\n"
            f"pathlib.Path({str(tmp_path)!r}, 'new').rename({str(tmp_path / 'pid')!r}); sys.stdin.read()"
        )
    assert not psutil.pid_exists(int((tmp_path / "pid").read_text()))


def test_missing_part_and_dead_supervisor_are_reported(start_stage, tmp_path):
    ready = json.dumps({"urls": {}})
    stage = start_stage(
        "import pathlib, sys, time\n"
        f"pathlib.Path({str(tmp_path)!r}, 'ready.json').write_text({ready!r}); sys.stdin.read()"
    )
    with pytest.raises(PartFailed, match="hub does not run"):
        stage.part("hub")
    stage.supervisor().kill()
    assert eventually(lambda: stage._supervisor.poll() is not None, 5)
    with pytest.raises(PartFailed, match="has ended: it was killed"):
        stage.part("hub")
    stage.close()
    stage.close()  # a second end does nothing
