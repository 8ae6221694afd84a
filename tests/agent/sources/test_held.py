"""Tests of the source that tells who holds GPUs and leaves them idle."""

import os

import pytest

from tests.agent.agent_client import failing_at
from tests.agent.sources.held_node import FakeNode
from tests.build import rank_state
from zmon.agent.sources.held import LIST_SECONDS, MAX_GAP_SECONDS
from zmon.agent.sources.holders import MAX_HOLDERS
from zmon.errors import SourceUnavailable
from zmon.schema.host import HeldGpus

POD = "/kubepods/burstable/pod1/c1"
DOCKER = "c 1:3 rwm\nc 195:255 rw\nc 195:254 rw\nc 511:0 rw\n"  # null, nvidiactl, nvidia-modeset, nvidia-uvm
MINUTE = 60  # seconds


@pytest.fixture
def node(tmp_path):
    """Return a node whose agent has read the holders before any job begins."""
    node = FakeNode(tmp_path)
    node.files.mkdir()
    node.after()
    node.now += LIST_SECONDS
    return node


@pytest.fixture
def unread_node(tmp_path):
    """Return a node whose agent has not read the holders yet."""
    return FakeNode(tmp_path)


def test_holder_has_its_user_and_its_number_of_gpus(node):
    node.job(7, 0, 1)
    node.group(POD, f"{DOCKER}c 195:2 rw\nc 195:3 rw\n")
    assert node.after() == {"slurm-7": HeldGpus("slurm-7", "ann", 2), POD: HeldGpus(POD, "", 2)}
    (node.files / "slurm-7.json").unlink()
    node.now += LIST_SECONDS
    assert list(node.after()) == [POD]


@pytest.mark.parametrize(
    "devices",
    [
        pytest.param("a *:* rwm\n", id="no restriction, as Slurm leaves it"),
        pytest.param("c 195:* rw\n", id="all devices of the driver, as for an agent"),
        pytest.param(DOCKER, id="no GPU"),
        pytest.param("", id="empty"),
    ],
)
def test_group_that_names_no_gpu_holds_none(node, devices):
    node.group(POD, devices)
    assert node.after() == {}


def test_group_below_a_holder_and_the_group_of_a_listed_job_are_not_counted_again(node):
    node.job(7, 0)
    node.group("/slurm/uid_1/job_7", "c 195:0 rwm\n")
    node.group(POD, "c 195:1 rwm\n")
    node.group(f"{POD}/inner", "c 195:1 rwm\n")
    assert sorted(node.after()) == [POD, "slurm-7"]


def test_group_that_is_removed_while_the_groups_are_listed_hides_no_other(node, monkeypatch):
    node.group("/docker/ended", "c 195:1 rwm\n")
    node.group(POD, "c 195:0 rwm\n")
    monkeypatch.setattr(os, "scandir", failing_at(os.scandir, "/docker", FileNotFoundError()))
    assert list(node.after()) == [POD]


def test_holders_are_unknown_on_v2_without_files(unread_node):
    unread_node.cgroup.mkdir()
    (unread_node.cgroup / "cgroup.controllers").write_text("cpu memory\n")
    with pytest.raises(SourceUnavailable, match="cannot tell who holds GPUs: control groups of v2 do not list devices"):
        unread_node.source.read()


@pytest.mark.parametrize("text", ["", "{", '{"gpus": "0"}', '{"gpus": [0.5]}', "[]"])
def test_file_that_cannot_be_read_is_reported_and_hides_no_other(node, text):
    node.job(7, 0)
    (node.files / "slurm-8.json").write_text(text)
    (node.files / "slurm-9.json.new").write_text("{")  # the prolog writes it now
    reading = node.source.read()
    assert [held.holder for held in reading.value] == ["slurm-7"]
    (line,) = reading.dropped
    assert "slurm-8.json" in line
    node.now += 1.0
    assert node.source.read().dropped == reading.dropped


def test_holders_beyond_the_limit_are_counted(node):
    for number in range(MAX_HOLDERS + 1):
        node.job(number, 0)
    reading = node.source.read()
    assert len(reading.value) == MAX_HOLDERS
    assert reading.dropped == (f"1 of {MAX_HOLDERS + 1} holders of GPUs: at most {MAX_HOLDERS} are read",)


def test_job_in_which_nothing_ever_ran_is_idle(node):
    node.job(7, 0, 1)
    node.job(8, 2)
    node.ratios[2] = 0.9
    assert node.after(30 * MINUTE) == {
        "slurm-7": HeldGpus("slurm-7", "ann", 2, "never_ran", 30.0 * MINUTE),
        "slurm-8": HeldGpus("slurm-8", "ann", 1),
    }


RANK = {"steps": 100, "overdue_seconds": 0.0}
PLACES = {  # fields of the rank of job 7, its pid (0: hidden), the control group of its process
    "by its control group": ({"job_id": "mine"}, 77, "/system.slice/slurmstepd.scope/job_7/step_0"),
    "by its job id": ({"job_id": "slurm-7.0"}, 0, ""),
    "by its GPU in the box": ({"job_id": "mine", "device": "GPU-1"}, 0, ""),
    "by the driver's list of processes": ({"job_id": "mine"}, 78, ""),
}


@pytest.mark.parametrize(("fields", "pid", "group"), PLACES.values(), ids=PLACES)
def test_job_is_busy_then_hung_then_ended_as_its_rank_runs_hangs_and_is_gone(node, fields, pid, group):
    node.job(7, 0, 1)
    node.job(71, 2)
    node.ratios[2] = 0.5
    if pid:
        node.process(pid, group)
        node.pids = {1: (pid,)}
    node.ranks = [(rank_state(0, **RANK, **fields), pid)]
    assert node.idle(20 * MINUTE) == {}
    node.ratios[1] = 1.0  # the kernel of a collective spins
    node.ranks = [(rank_state(0, **RANK | {"overdue_seconds": 900.0}, **fields), pid)]
    assert node.idle(0.0) == {"slurm-7": "hung"}
    node.ratios[1], node.pids, node.ranks = 0.0, {}, []
    assert node.idle(5) == {"slurm-7": "ended"}


def test_job_whose_process_computes_nothing_is_idle(node):
    node.job(7, 0)
    node.pids = {0: (77,)}
    assert node.idle(15 * MINUTE) == {"slurm-7": "idle_process"}


def test_dead_rank_of_an_earlier_job_does_not_belong_to_the_next_job_on_its_gpu(node):
    node.ranks = [(rank_state(0, job_id="mine", device="GPU-0", alive=False, **RANK), 77)]
    node.process(77, "/job_8")  # another process has its number
    node.job(8, 0)
    assert node.idle(15 * MINUTE) == {"slurm-8": "never_ran"}


def test_rank_in_a_control_group_with_a_longer_name_does_not_belong_to_the_job(node):
    node.job(7, 0)
    node.process(77, "/slurm/uid_1/job_71/step_0")
    node.ranks = [(rank_state(0, job_id="mine", **RANK), 77)]
    assert node.idle(15 * MINUTE) == {"slurm-7": "never_ran"}


def test_pod_that_is_known_by_its_control_group_is_idle(node):
    node.group(POD, "c 195:0 rw\n")
    assert node.idle(15 * MINUTE) == {POD: "never_ran"}


def test_quiet_while_a_job_starts(node):
    node.job(7, 0)
    assert node.idle(14 * MINUTE) == {}


def test_quiet_while_a_rank_initializes_that_is_on_no_gpu_yet(node):
    node.job(7, 0)
    node.ranks = [(rank_state(0, job_id="mine", steps=0, activity="init", device="cpu"), 0)]
    assert node.idle(30 * MINUTE) == {}


def test_quiet_in_an_interactive_session_that_computes_now_and_then(node):
    node.job(7, 0)
    for _ in range(4):
        node.ratios[0] = 0.0
        assert node.idle(14 * MINUTE) == {}
        node.ratios[0] = 0.01
        assert node.idle(0.0) == {}


def test_quiet_between_two_launches_of_a_restart_loop(node):
    node.job(7, 0)
    for _ in range(3):
        node.ranks = [(rank_state(0, job_id="slurm-7.0", **RANK), 0)]
        assert node.idle(MINUTE) == {}
        node.ranks = []
        assert node.idle(10 * MINUTE) == {}


def test_quiet_while_processes_that_zmon_does_not_watch_keep_the_gpus_busy(node):
    node.job(7, 0, 1)
    node.ratios[1] = 0.3
    assert node.idle(60 * MINUTE) == {}


def test_quiet_when_the_agent_has_just_started_and_after_a_gap(unread_node):
    unread_node.job(7, 0)
    assert unread_node.idle(14 * MINUTE) == {}
    unread_node.now += MAX_GAP_SECONDS + 1
    assert unread_node.idle(14 * MINUTE) == {}
    assert unread_node.idle(2 * MINUTE) == {"slurm-7": "unknown"}


@pytest.mark.parametrize("ratios", [[None, 0.0], []], ids=["split into instances", "the source is down"])
def test_quiet_and_reported_while_the_utilization_of_a_gpu_is_unknown(node, ratios):
    node.job(7, 0)
    node.ratios = ratios
    assert node.idle(30 * MINUTE) == {}
    assert node.source.read().dropped == ("slurm-7: it is unknown whether its GPUs are idle",)


def test_quiet_about_a_monitor_whose_group_has_all_gpus_until_it_computes(node):
    """The GPUs of a job are also those of the monitor's group, so the end of the job tells nothing about it."""
    node.group("/docker/exporter", "".join(f"c 195:{n} rw\n" for n in range(4)))
    node.ratios[0], node.pids = 0.9, {0: (77,)}
    node.ranks = [(rank_state(0, job_id="mine", device="GPU-0", **RANK), 77)]
    node.process(77, "/user.slice")
    assert node.idle(MINUTE) == {}
    node.ratios[0], node.pids, node.ranks = 0.0, {}, []
    assert node.idle(30 * MINUTE) == {}
    node.process(78, "/docker/exporter")
    node.pids, node.ratios[0] = {0: (78,)}, 0.9
    assert node.idle(0.0) == {}
    node.pids, node.ratios[0] = {}, 0.0
    assert node.idle(15 * MINUTE) == {"/docker/exporter": "ended"}
