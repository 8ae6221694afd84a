"""Tests of the source that lists the pods which hold GPUs, against an API server on loopback."""

import asyncio
from itertools import pairwise
from types import SimpleNamespace

import msgspec
import pytest

from tests.web.kubernetes.fake_api import ALL_PODS, FakeApi, pod
from zmon.agent.sources.holders import Holder
from zmon.agent.sources.pods import LONGEST_PAUSE_SECONDS, PodSource, pod_holders
from zmon.errors import Forbidden, Unreachable, UsageError
from zmon.web.kubernetes import requests
from zmon.web.kubernetes.agent_pods import Pod

UID = "0b2e7d1c-5f5e-4c52-9a3e-6f1d2c3b4a59"
GROUPS = (f"/pod{UID}", "-pod0b2e7d1c_5f5e_4c52_9a3e_6f1d2c3b4a59.slice")
GPU, MIG = "nvidia.com/gpu", "nvidia.com/mig-1g.5gb"


def holders(name="train-0", namespace="team", **changes):
    """Return the holders and the lines about a pod."""
    dropped = []
    described = pod(name, namespace=namespace, uid=UID, **changes)
    return list(pod_holders([msgspec.convert(described, Pod)], dropped)), dropped


@pytest.mark.parametrize(
    ("changes", "number"),
    [
        pytest.param({"limits": [{GPU: "4", "cpu": "8", "memory": "64Gi"}]}, 4, id="one container"),
        pytest.param({"limits": [{GPU: "1"}, {}, {GPU: "2"}]}, 3, id="sum of containers"),
        pytest.param({"limits": [{GPU: "1"}], "phase": "Pending"}, 1, id="starts"),
        pytest.param({"limits": [{GPU: "1"}], "deleted": True}, 1, id="is being deleted"),
        pytest.param({"limits": [{GPU: "1"}], "phase": "Succeeded"}, None, id="succeeded"),
        pytest.param({"limits": [{GPU: "1"}], "phase": "Failed"}, None, id="failed"),
        pytest.param({"limits": [{"cpu": "8"}, {GPU: "0"}]}, None, id="no GPU"),
        pytest.param({}, None, id="no limit"),
    ],
)
def test_pod_holds_the_limits_of_its_containers_until_it_has_ended(changes, number):
    expected = [] if number is None else [Holder("team/train-0", number, groups=GROUPS)]
    assert holders(**changes) == (expected, [])


UNREADABLE = {
    "instances": ({MIG: "2"}, "team/train-0: it is unknown whether its instances of GPUs are idle"),
    "instances and a GPU": ({MIG: "2", GPU: "1"}, "team/train-0: it is unknown whether its instances of GPUs are idle"),
    "a suffix": ({GPU: "1k"}, "team/train-0: its limit of nvidia.com/gpu is no number of GPUs"),
    "a huge number": ({GPU: "9" * 5000}, "team/train-0: its limit of nvidia.com/gpu is no number of GPUs"),
}


@pytest.mark.parametrize(("limits", "line"), UNREADABLE.values(), ids=UNREADABLE)
def test_pod_with_an_unreadable_limit_is_left_out_and_reported(limits, line):
    assert holders(limits=[limits]) == ([], [line])


def test_hostile_name_of_a_pod_becomes_plain_text():
    ((holder,), _) = holders("a\x1b[2J\n\u202ex", 'te"am', limits=[{GPU: "1"}])
    assert holder.name == 'te"am/a\\x1b[2J \\u202ex'


@pytest.fixture
def api(event_loop_runner, opened):
    """Return a running API server that has pods of two nodes."""
    fake_api = FakeApi()
    mine, other = (
        pod(name, node=node, limits=[{GPU: "2"}]) for name, node in (("mine", "node-1"), ("other", "node-2"))
    )
    fake_api.objects = {ALL_PODS: {"mine": mine, "other": other}}
    event_loop_runner.run(opened.enter_async_context(fake_api.serve()))
    return fake_api


@pytest.fixture
def clock():
    """Return a monotonic clock that a test sets."""
    return SimpleNamespace(now=0.0)  # monotonic seconds


@pytest.fixture
def read(api, clock, tmp_path):
    """Return a function that reads the source of node-1."""
    (tmp_path / "token").write_text("token-1")
    source = PodSource(api.account(tmp_path / "token"), "node-1", lambda: clock.now)

    async def read_source():
        return await asyncio.to_thread(source.read)

    return read_source


async def test_source_asks_for_the_pods_of_its_node_and_spares_etcd(api, read):
    reading = await read()
    assert [(holder.name, holder.num_gpus) for holder in reading.value] == [("zmon/mine", 2)]
    assert api.lists == [{"fieldSelector": "spec.nodeName=node-1", "resourceVersion": "0", "limit": "250"}]


async def test_refusal_is_one_line_with_the_rule_that_is_missing_and_is_not_cut(api, read):
    message = (
        'pods is forbidden: User "system:serviceaccount:zmon-agents:zmon-agent" cannot list resource "pods" in API '
        'group "" at the cluster scope'
    )
    api.refusals = {"list": (403, message)}
    with pytest.raises(Forbidden) as refused:
        await read()
    assert str(refused.value) == (
        f"cannot list pods of the cluster: {message} (403). Give the service account a ClusterRole with the rule "
        '{apiGroups: [""], resources: [pods], verbs: [list]}'
    )


async def test_server_that_refuses_is_asked_less_and_less_often_until_it_answers(api, read, clock):
    api.refusals = {"list": (429, "too many requests")}
    asked_at = []
    while clock.now < 4 * LONGEST_PAUSE_SECONDS:
        num_before = len(api.lists)
        with pytest.raises(Unreachable, match=r"too many requests \(429\)"):
            await read()
        asked_at += [clock.now] * (len(api.lists) - num_before)
        clock.now += PodSource.interval_seconds
    pauses = [after - before for before, after in pairwise(asked_at)]
    assert pauses == [40.0, 80.0, 160.0, 320.0, 320.0, 320.0]
    api.refusals = {}
    clock.now += LONGEST_PAUSE_SECONDS
    assert (await read()).value
    num_before = len(api.lists)
    api.refusals = {"list": (503, "")}
    for _ in range(3):  # at 0, 20 and 40 s
        with pytest.raises(Unreachable):
            await read()
        clock.now += PodSource.interval_seconds
    assert len(api.lists) == num_before + 2  # not at 20 s: the first pause is 40 s again


async def test_server_that_does_not_answer_in_time_is_reported(api, read, monkeypatch):
    monkeypatch.setattr(requests, "ANSWER_SECONDS", 0.1)
    api.delay_seconds = 1.0
    with pytest.raises(Unreachable, match=r"/api/v1/pods.* 0\.1 s"):
        await read()


@pytest.mark.parametrize("node", ["Node-1", "a,spec.nodeName!=b", "a=b", "-a", "a" * 254, "a b"])
def test_invalid_name_of_a_node_is_refused(node):
    with pytest.raises(UsageError, match=r"is no name of a node\. Set --pods-of-node"):
        PodSource(None, node)
