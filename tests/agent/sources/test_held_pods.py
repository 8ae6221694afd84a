"""Tests of pods that leave their GPUs idle. The API tells how many GPUs a pod has, and not which."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

import msgspec
import pytest

from tests.agent.sources.held_node import FakeNode
from tests.build import rank_state
from tests.web.kubernetes.fake_api import pod
from zmon.agent.sources.held import LIST_SECONDS, MAX_GAP_SECONDS
from zmon.errors import SourceUnavailable
from zmon.schema.host import GpuSample, HeldGpus
from zmon.web.kubernetes.agent_pods import Pod

MINUTE = 60  # seconds
A, B, SYSTEM = (f"0b2e7d1c-5f5e-4c52-9a3e-6f1d2c3b4a5{digit}" for digit in "abc")  # uids; SYSTEM holds no GPU
OF_A, OF_B, OF_SYSTEM, OF_HOST, HIDDEN = 71, 72, 73, 74, 75  # pids: of the pods, of the host, and of nobody
DRIVERS = {
    "cgroupfs": lambda uid: f"/kubepods/burstable/pod{uid}/4f1c",
    "systemd": lambda uid: (
        f"/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod{uid.replace('-', '_')}.slice/"
        "cri-containerd-4f1c.scope"
    ),
    "systemd, from the cgroup namespace of the agent": lambda uid: (
        f"/../../../kubepods-burstable.slice/kubepods-burstable-pod{uid.replace('-', '_')}.slice/crio-4f1c.scope"
    ),
}


def gpu_pod(name, uid, number, **changes):
    """Return a pod of the namespace `team` with this number of GPUs."""
    return msgspec.convert(
        pod(name, namespace="team", uid=uid, limits=[{"nvidia.com/gpu": str(number)}], **changes), Pod
    )


def pod_node(root, group_of):
    """Return a node on which two pods with two GPUs each have just begun."""
    node = FakeNode(root)
    for pid, group in ((OF_A, group_of(A)), (OF_B, group_of(B)), (OF_SYSTEM, group_of(SYSTEM)), (OF_HOST, "/x.slice")):
        (node.proc / str(pid)).mkdir(parents=True)
        (node.proc / str(pid) / "cgroup").write_text(f"0::{group}\n")
    (node.proc / "self/ns").mkdir(parents=True)
    (node.proc / "self/ns/pid").symlink_to("pid:[4026531836]")
    node.pods = []
    node.after()
    node.now += LIST_SECONDS
    node.pods = [gpu_pod("a", A, 2), gpu_pod("b", B, 2)]
    return node


@pytest.fixture
def node(tmp_path):
    """Return a node with two pods, whose control groups are made by systemd."""
    return pod_node(tmp_path, DRIVERS["systemd"])


class Moment(NamedTuple):
    """The GPUs at one moment: the utilization of each, its processes, and the ranks of the node."""

    ratios: tuple = (0.0, 0.0, 0.0, 0.0)
    pids: Mapping = MappingProxyType({})
    ranks: tuple = ()  # pairs of overdue seconds and pid

    def show(self, node):
        """Let the node show what its GPUs do at this moment."""
        node.ratios, node.pids = list(self.ratios), self.pids
        node.ranks = [
            (rank_state(0, job_id="mine", steps=100, overdue_seconds=seconds), pid) for seconds, pid in self.ranks
        ]


IDLE = Moment()
HANGS = ((900.0, OF_A),)
WORKS = Moment((0.9, 0.0, 0.0, 0.0), {0: (OF_A,)}, ((0.0, OF_A),))
CASES = {  # the GPUs for a minute, and for 20 minutes after it → why pods a and b are idle then; None: not idle
    "nothing ever ran": (IDLE, IDLE, "never_ran", "never_ran"),
    "its process ended": (Moment(WORKS.ratios, WORKS.pids), IDLE, "ended", "never_ran"),
    "its ranks are gone": (WORKS, IDLE, "ended", "never_ran"),
    "its rank hangs, and its kernel spins": (WORKS, Moment(WORKS.ratios, WORKS.pids, HANGS), "hung", "never_ran"),
    "its rank hangs outside of the GPU": (WORKS, Moment(ranks=HANGS), "hung", "never_ran"),
    "its process computes nothing": (IDLE, Moment(pids={0: (OF_A,), 1: (OF_A,)}), "idle_process", "never_ran"),
    "it computes on one of its GPUs": (IDLE, Moment((0.0, 0.1, 0.0, 0.0), {0: (OF_A,), 1: (OF_A,)}), None, "never_ran"),
    "its rank is not overdue": (IDLE, Moment(ranks=((0.0, OF_A),)), None, "never_ran"),
    "both compute": (IDLE, Moment((0.5,) * 4, {0: (OF_A,), 1: (OF_A,), 2: (OF_B,), 3: (OF_B,)}), None, None),
    "b computes on all its GPUs": (IDLE, Moment((0, 0, 0.5, 0.5), {2: (OF_B,), 3: (OF_B,)}), "never_ran", None),
    "they share a GPU, and one computes there": (IDLE, Moment((0.5, 0.0, 0.0, 0.0), {0: (OF_A, OF_B)}), None, None),
    "a third pod is on all GPUs": (IDLE, Moment(pids=dict.fromkeys(range(4), (OF_SYSTEM,))), "never_ran", "never_ran"),
}


@pytest.mark.parametrize(("before", "now", "why_a", "why_b"), CASES.values(), ids=CASES)
@pytest.mark.parametrize("driver", DRIVERS)
def test_pods_are_idle_for_their_reasons(tmp_path, driver, before, now, why_a, why_b):
    node = pod_node(tmp_path, DRIVERS[driver])
    before.show(node)
    assert node.idle(MINUTE) == {}
    now.show(node)
    reasons = {"team/a": why_a, "team/b": why_b}
    assert node.idle(20 * MINUTE) == {name: why for name, why in reasons.items() if why}
    assert node.source.read().dropped == ()


UNKNOWN = {  # the GPUs for 20 minutes → the pods of which it is unknown whether their GPUs are idle
    "a GPU computes for a process of the host": (Moment((0.9, 0.0, 0.0, 0.0), {0: (OF_HOST,)}), "ab"),
    "a GPU computes for a pod without a limit": (Moment((0.9, 0.0, 0.0, 0.0), {0: (OF_SYSTEM,)}), "ab"),
    "a GPU computes for a process that is hidden": (Moment((0.9, 0.0, 0.0, 0.0), {0: (HIDDEN,)}), "ab"),
    "a GPU computes for a process that the driver does not list": (Moment((0.9, 0.0, 0.0, 0.0)), "ab"),
    "a has all its GPUs, so it is b that may compute": (
        Moment((0.0, 0.0, 0.9, 0.0), {0: (OF_A,), 1: (OF_A,)}), "b"
    ),
    "a GPU is lost, or its utilization cannot be read": (Moment((0.0, 0.0, 0.0, None)), "ab"),
    "the source gpu is down": (Moment(()), "ab"),
}  # fmt: skip


@pytest.mark.parametrize(("now", "unknown"), UNKNOWN.values(), ids=UNKNOWN)
def test_quiet_and_reported_while_it_cannot_be_told_whether_a_pod_computes(node, now, unknown):
    now.show(node)
    kinds = {name: held.idle_kind for name, held in node.after(20 * MINUTE).items()}
    assert kinds == {f"team/{name}": None if name in unknown else "idle_process" for name in "ab"}
    assert node.source.read().dropped == tuple(
        f"team/{name}: it is unknown whether its GPUs are idle" for name in unknown
    )


def test_quiet_about_a_gpu_that_is_split_into_instances(node):
    node.ratios = [None, 0.0, 0.0, 0.0]
    node.instances = [GpuSample("0:0", "MIG-0", pids=(OF_A,)), GpuSample("0:1", "MIG-1")]
    assert node.idle(20 * MINUTE) == {}


@pytest.mark.parametrize("link", ["pid:[4026532001]", None], ids=["in another namespace", "without /proc"])
def test_quiet_and_reported_where_the_processes_of_the_host_are_not_visible(node, link):
    (node.proc / "self/ns/pid").unlink()
    if link:
        (node.proc / "self/ns/pid").symlink_to(link)
    assert node.idle(20 * MINUTE) == {}
    assert node.source.read().dropped == (
        "the processes of pods are not visible: run the agent in the PID namespace of the host (hostPID)",
        "team/a: it is unknown whether its GPUs are idle",
        "team/b: it is unknown whether its GPUs are idle",
    )


def test_pod_that_has_ended_holds_nothing(node):
    node.pods = [gpu_pod("a", A, 2, phase="Succeeded"), gpu_pod("b", B, 2, phase="Pending")]
    assert node.after() == {"team/b": HeldGpus("team/b", "", 2)}


def test_pod_of_the_same_name_after_it_begins_anew(node):
    WORKS.show(node)
    node.after(MINUTE)
    IDLE.show(node)
    node.pods = [gpu_pod("a", A.replace("0", "1"), 2)]
    assert node.idle(20 * MINUTE) == {"team/a": "never_ran"}


def test_pod_is_counted_once_beside_its_control_groups_of_v1_and_jobs_by_files(node):
    node.group(f"/kubepods/burstable/pod{A}/4f1c", "c 195:0 rw\nc 195:1 rw\n")
    node.group(f"/kubepods.slice/kubepods-pod{B.replace('-', '_')}.slice/crio-4f1c.scope", "c 195:2 rw\n")
    node.group("/docker/4f1c", "c 195:3 rw\n")
    node.job(7, 3)
    assert sorted(node.after()) == ["slurm-7", "team/a", "team/b"]
    assert node.idle(20 * MINUTE) == {"slurm-7": "never_ran", "team/a": "never_ran", "team/b": "never_ran"}


def test_one_failed_request_changes_nothing(node):
    node.after(10 * MINUTE)
    pods, node.pods = node.pods, None
    assert sorted(node.after(40)) == ["team/a", "team/b"]
    node.pods = pods
    assert node.idle(6 * MINUTE) == {"team/a": "never_ran", "team/b": "never_ran"}


def test_without_the_api_server_holders_are_unknown_and_later_what_ran_meanwhile(node):
    node.after(10 * MINUTE)
    pods, node.pods = node.pods, None
    with pytest.raises(SourceUnavailable, match=r"cannot tell who holds GPUs: .* no list of the pods of this node"):
        node.after(2 * MAX_GAP_SECONDS)
    node.pods = pods
    assert node.idle(14 * MINUTE) == {}
    assert node.idle(2 * MINUTE) == {"team/a": "unknown", "team/b": "unknown"}


def test_without_the_api_server_files_and_control_groups_are_read(node):
    node.group(f"/kubepods/burstable/pod{A}/4f1c", "c 195:0 rw\n")
    node.job(7, 3)
    pods, node.pods = node.pods, None
    node.after(2 * MAX_GAP_SECONDS)
    assert sorted(node.after()) == [f"/kubepods/burstable/pod{A}/4f1c", "slurm-7"]
    assert node.idle(20 * MINUTE)["slurm-7"] == "never_ran"
    node.pods = pods
    node.now += LIST_SECONDS
    assert sorted(node.after()) == ["slurm-7", "team/a", "team/b"]
    assert node.idle(20 * MINUTE) == {"slurm-7": "never_ran", "team/a": "unknown", "team/b": "unknown"}
