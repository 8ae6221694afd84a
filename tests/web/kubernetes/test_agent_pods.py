"""Tests of the pods that are agents, and of their URLs."""

import msgspec
import pytest

from tests.web.kubernetes.fake_api import pod
from zmon.web.kubernetes.agent_pods import Pod, PodSelection, agent_url, pod_selection


def url(ip, scheme="http", port=None, **changes):
    """Return the URL of the agent in a pod; None: it is no agent. `port`: the one that the hub was given."""
    return agent_url(msgspec.convert(pod("a", ip, **changes), Pod), scheme, port)


ON_HOST = {"host_ip": "192.168.0.7", "host_network": True}
URLS = {  # a pod, and the URL of its agent; None: it is no agent
    "running": ({"ip": "10.0.0.1"}, "http://10.0.0.1:9780"),
    "IPv6, with TLS": ({"ip": "fd00::1", "scheme": "https"}, "https://[fd00::1]:9780"),
    "in the network of its host": ({"ip": "192.168.0.7", **ON_HOST}, "http://192.168.0.7:9780"),
    "in the network of its host, without its own address": ({"ip": "", **ON_HOST}, "http://192.168.0.7:9780"),
    "pending": ({"ip": "10.0.0.1", "phase": "Pending"}, "http://10.0.0.1:9780"),
    "pending, without an address": ({"ip": "", "phase": "Pending"}, None),
    "without an address of its own": ({"ip": "", "host_ip": "192.168.0.7"}, None),
    "in an unknown phase": ({"ip": "10.0.0.1", "phase": "Unknown"}, "http://10.0.0.1:9780"),
    "in a phase of a newer Kubernetes": ({"ip": "10.0.0.1", "phase": "Suspended"}, "http://10.0.0.1:9780"),
    "succeeded": ({"ip": "10.0.0.1", "phase": "Succeeded"}, None),
    "failed": ({"ip": "10.0.0.1", "phase": "Failed"}, None),
    "being deleted": ({"ip": "10.0.0.1", "deleted": True}, "http://10.0.0.1:9780"),
}


@pytest.mark.parametrize(("changes", "expected"), URLS.values(), ids=URLS)
def test_pod_that_runs_and_has_an_address_is_an_agent(changes, expected):
    assert url(**changes) == expected


@pytest.mark.parametrize(
    ("ports", "wanted"),
    [
        pytest.param((), 9780, id="no named port"),
        pytest.param((("http", 9000),), 9000, id="http"),
        pytest.param((("http", 9000), ("zmon-agent", 9001)), 9001, id="zmon-agent and http"),
        pytest.param((("metrics", 9000),), 9780, id="another name"),
    ],
)
def test_port_is_the_one_that_the_pod_calls_zmon_agent_or_http(ports, wanted):
    assert url("10.0.0.1", ports=ports) == f"http://10.0.0.1:{wanted}"
    assert url("10.0.0.1", ports=ports, port=9999) == "http://10.0.0.1:9999"


@pytest.mark.parametrize(
    ("text", "selection"),
    [
        ("zmon/app=agent", ("zmon", "app=agent", None)),
        ("zmon-agents/app.kubernetes.io/component=agent", ("zmon-agents", "app.kubernetes.io/component=agent", None)),
        ("zmon/app=agent:9781", ("zmon", "app=agent", 9781)),
        ("zmon/app in (a, b),!canary,tier!=x", ("zmon", "app in (a, b),!canary,tier!=x", None)),
    ],
)
def test_selection_has_a_namespace_labels_and_a_port(text, selection):
    assert pod_selection(text) == PodSelection(text, *selection)


@pytest.mark.parametrize(
    "text",
    ["", "zmon", "zmon/", "/app=a", "Zmon/app=a", "zmon-/app=a", "a.b/app=a", "zmon/app=a:http", "zmon/a&x", "zmon/,"],
)
def test_malformed_selection_is_none(text):
    assert pod_selection(text) is None
