"""Faults that do not come about, or are broken off, leave nothing behind; what they need is said in one line."""

import json
import subprocess
import sys
from types import SimpleNamespace

import psutil
import pytest

from tests.boxes import eventually
from zmon.drills.compiled import shared_library
from zmon.drills.drill import Scene
from zmon.drills.faults import cgroups, gpu, parts, signals
from zmon.drills.host import OneHost
from zmon.drills.jobs import HERE
from zmon.errors import PartFailed, ZmonError

pytestmark = pytest.mark.drill

SLEEP = [sys.executable, "-c", "import time; time.sleep(100)"]


@pytest.fixture
def other():
    """A process that has nothing to do with any job."""
    with subprocess.Popen(SLEEP) as process:
        yield psutil.Process(process.pid)
        process.kill()


@pytest.fixture
def scene(tmp_path, other):
    """A rank that died, whose pid is another's by now."""
    job = SimpleNamespace(folder=tmp_path, spec=SimpleNamespace(job_id="job"))
    return Scene(None, job, 1, "here", other.pid, None)


def test_whoever_got_the_pid_of_a_dead_rank_is_not_struck(scene, other):
    for strike in (signals.kill_rank, signals.stop_rank):
        with pytest.raises(ZmonError, match="rank 1 cannot be struck: it died before"):
            strike(scene)
    assert other.is_running()
    assert other.status() != psutil.STATUS_STOPPED


def test_supervisor_goes_on_where_the_part_does_not_run(other):
    def part(name):
        assert other.status() == psutil.STATUS_STOPPED
        raise PartFailed("the hub does not run")

    with pytest.raises(PartFailed):
        parts._kill(SimpleNamespace(supervisor=lambda: other, part=part), "hub")
    assert eventually(lambda: other.status() != psutil.STATUS_STOPPED, 5)


def test_no_gpu_throttles_where_the_job_does_not_obey(scene, monkeypatch):
    told = set()
    stage = object.__new__(OneHost)
    stage.gpus = SimpleNamespace(
        tell=lambda *lines: told.update((who, what) for who, what, _ in lines),
        untell=lambda *questions: told.difference_update(questions),
    )
    stage.ranks = lambda _: {1: SimpleNamespace(rank=1, pid=7)}

    def deaf(*_):
        assert told
        raise ZmonError("the job did not obey")

    monkeypatch.setattr(gpu, "one_rank", lambda *_: deaf)
    monkeypatch.setattr(gpu, "LOOKED_SECONDS", 0.0)
    with pytest.raises(ZmonError, match="did not obey"):
        gpu.throttled(Scene(stage, scene.job, 1, "here", 7, None))
    assert not told


@pytest.mark.skipif(cgroups.unavailable() is not None, reason=str(cgroups.unavailable()))
def test_group_of_a_drill_that_was_killed_is_removed_and_what_lives_there_goes_on(other):
    gone = subprocess.Popen(["true"])
    gone.wait()
    parent, _ = cgroups._place()
    group = parent / f"zmon-drill-{gone.pid}-job"
    group.mkdir()
    (group / "cgroup.procs").write_text(str(other.pid))
    cgroups.remove_leftovers()
    assert not group.exists()
    assert other.is_running()


def test_a_rank_eats_no_more_than_told(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(HERE)
    import saboteur

    told = {"folder": str(tmp_path), "checkpoint_steps": 0, "steps": 0, "step_seconds": 0.0, "slow_start": 1.0}
    monkeypatch.setenv("DRILL", json.dumps(told | {"exchange_rate": 0.0, "seed": 1}))
    monkeypatch.setenv("RANK", "0")
    order = {"id": "1", "what": "eat", "ranks": [0], "at": 0, "amount": 16 * saboteur.MIB}
    (tmp_path / "orders.json").write_text(json.dumps([order]))
    rank = saboteur.Saboteur()
    for _ in range(5):
        rank.begin_step()
    assert sum(map(len, rank._eaten)) == 16 * saboteur.MIB


def test_compiler_that_fails_is_one_line_with_what_to_install(tmp_path):
    (tmp_path / "bad.c").write_text("#include <nowhere.h>\n")
    with pytest.raises(PartFailed, match=r"cannot compile bad\.c: .*nowhere\.h.*apt-get install gcc libc6-dev"):
        shared_library(tmp_path / "bad.c", tmp_path / "bad.so")


def test_missing_compiler_is_one_line_with_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(PartFailed, match=r"there is no C compiler\. apt-get install gcc libc6-dev"):
        shared_library(tmp_path / "bad.c", tmp_path / "bad.so")
