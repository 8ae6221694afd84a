"""Tests of faults that fail. They strike no other process, undo their changes, and report a missing compiler."""

import json
import subprocess
import sys
from types import SimpleNamespace

import psutil
import pytest

from lab.drills.drill import Scene
from lab.faults import cgroups, gpu, parts, signals
from lab.jobs import JOBS_DIR
from lab.libraries import shared_library
from lab.stage.host import OneHost
from tests.boxes import eventually
from zmon.errors import PartFailed, ZmonError

pytestmark = pytest.mark.drill

SLEEP = [sys.executable, "-c", "import time; time.sleep(100)"]
NO_CGROUP = cgroups.unavailable()()  # the reason, or None


@pytest.fixture
def other_process():
    """A process that belongs to no job."""
    with subprocess.Popen(SLEEP) as process:
        yield psutil.Process(process.pid)
        process.kill()


@pytest.fixture
def scene(tmp_path, other_process):
    """A scene whose rank has died. Another process has its pid now."""
    job = SimpleNamespace(folder=tmp_path, spec=SimpleNamespace(job_id="job"))
    return Scene(None, job, 1, "node-a", other_process.pid, None)


def test_fault_spares_a_process_that_reuses_the_pid_of_a_dead_rank(scene, other_process):
    for fault in (signals.kill_rank, signals.stop_rank):
        with pytest.raises(ZmonError, match="cannot strike rank 1: it died before"):
            fault(scene)
    assert other_process.is_running()
    assert other_process.status() != psutil.STATUS_STOPPED


def test_kill_of_a_missing_part_continues_the_supervisor(other_process):
    def part(name):
        assert other_process.status() == psutil.STATUS_STOPPED
        raise PartFailed("the hub does not run")

    with pytest.raises(PartFailed):
        parts._kill(SimpleNamespace(supervisor=lambda: other_process, part=part), "hub")
    assert eventually(lambda: other_process.status() != psutil.STATUS_STOPPED, 5)


def test_throttled_resets_the_gpus_if_the_job_does_not_obey(scene, monkeypatch):
    answers = set()
    stage = object.__new__(OneHost)
    stage.gpus = SimpleNamespace(
        set_answers=lambda *lines: answers.update((device, question) for device, question, _ in lines),
        reset_answers=lambda *questions: answers.difference_update(questions),
    )
    stage.ranks = lambda _: {1: SimpleNamespace(rank=1, pid=7)}

    def disobey(*_):
        assert answers
        raise ZmonError("the job did not obey")

    monkeypatch.setattr(gpu, "one_rank", lambda *_: disobey)
    monkeypatch.setattr(gpu, "MAPPING_SECONDS", 0.0)
    with pytest.raises(ZmonError, match="did not obey"):
        gpu.throttled(Scene(stage, scene.job, 1, "node-a", 7, None))
    assert not answers


@pytest.mark.skipif(NO_CGROUP is not None, reason=str(NO_CGROUP))
def test_remove_leftovers_removes_the_cgroup_of_a_killed_drill(other_process):
    ended = subprocess.Popen(["true"])
    ended.wait()
    group = cgroups._parent("memory") / f"zmon-drill-{ended.pid}-job"
    group.mkdir()
    (group / "cgroup.procs").write_text(str(other_process.pid))
    cgroups.remove_leftovers()
    assert not group.exists()
    assert other_process.is_running()


def test_saboteur_allocates_no_more_memory_than_ordered(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(JOBS_DIR)
    import saboteur

    spec = {
        "folder": str(tmp_path), "checkpoint_steps": 0, "row_memory": 0, "steps": 0, "step_seconds": 0.0,
        "slow_start": 1.0, "handles_term": False, "exchange_rate": 0.0, "seed": 1,
    }  # fmt: skip
    monkeypatch.setenv("DRILL", json.dumps(spec))
    monkeypatch.setenv("RANK", "0")
    order = {"what": "eat", "ranks": [0], "at": 0, "amount": 2 * saboteur.EAT_BYTES}
    (tmp_path / "orders.json").write_text(json.dumps([order]))
    rank = saboteur.Saboteur()
    for _ in range(5):
        rank.begin_step()
    assert sum(map(len, rank._allocated)) == 2 * saboteur.EAT_BYTES


def test_failed_compilation_is_reported_with_packages_to_install(tmp_path):
    (tmp_path / "bad.c").write_text("#include <nowhere.h>\n")
    with pytest.raises(PartFailed, match=r"cannot compile bad\.c: .*nowhere\.h.*apt-get install gcc libc6-dev"):
        shared_library(tmp_path / "bad.c", tmp_path / "bad.so")


def test_missing_compiler_is_reported_with_packages_to_install(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(PartFailed, match=r"there is no C compiler\. apt-get install gcc libc6-dev"):
        shared_library(tmp_path / "bad.c", tmp_path / "bad.so")
