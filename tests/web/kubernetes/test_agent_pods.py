"""Tests of the pods that are agents, and of their URLs."""

import msgspec
import pytest

from tests.web.kubernetes.fake_api import pod
from zmon.web.kubernetes.agent_pods import Pod, PodSelection, agent_url, pod_selection


def url(*arguments, scheme="http", port=None, **changes):
    return agent_url(msgspec.convert(pod("a", *arguments, **changes), Pod), scheme, port)


def test_url_has_the_address_of_the_pod():
    assert url("10.0.0.1") == "http://10.0.0.1:9780"
    assert url("fd00::1", scheme="https") == "https://[fd00::1]:9780"


def test_pod_in_the_network_of_its_host_has_the_address_of_the_host():
    assert url("192.168.0.7", host_ip="192.168.0.7", host_network=True) == "http://192.168.0.7:9780"
    assert url("", host_ip="192.168.0.7", host_network=True) == "http://192.168.0.7:9780"


def test_pod_without_an_address_is_no_agent_yet():
    assert url("", phase="Pending") is None
    assert url("", host_ip="192.168.0.7") is None


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_pod_that_has_ended_is_no_agent(phase):
    assert url("10.0.0.1", phase=phase) is None


@pytest.mark.parametrize("phase", ["Pending", "Running", "Unknown", "Suspended"])
def test_pod_that_has_not_ended_is_an_agent(phase):
    assert url("10.0.0.1", phase=phase) == "http://10.0.0.1:9780"


def test_pod_that_is_being_deleted_is_still_an_agent():
    assert url("10.0.0.1", deleted=True) == "http://10.0.0.1:9780"


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
