"""Tests of the network interface of a job: that of its environment, `lo` if all ranks share a host, or unknown."""

import pytest

from zmon.probe.interface import JobInterface, job_interface, job_interface_name


@pytest.fixture
def sys_root(tmp_path):
    """Return a folder like /sys with three interfaces: interface n has sent 100 + n bytes and received 200 + n."""
    for number, interface_name in enumerate(("lo", "eth0", "docker0")):
        folder = tmp_path / "class/net" / interface_name / "statistics"
        folder.mkdir(parents=True)
        (folder / "tx_bytes").write_text(f"{100 + number}\n")
        (folder / "rx_bytes").write_text(f"{200 + number}\n")
    return tmp_path


INTERFACES = {  # the environment, whether all ranks share a host → the name of the interface
    "one host": ({}, True, "lo"),
    "gloo": ({"GLOO_SOCKET_IFNAME": "eth0"}, False, "eth0"),
    "the first of gloo that exists": ({"GLOO_SOCKET_IFNAME": "eth7,eth0"}, False, "eth0"),
    "the first of NCCL that exists": ({"NCCL_SOCKET_IFNAME": "=eth1,eth0"}, False, "eth0"),
    "gloo before NCCL": ({"GLOO_SOCKET_IFNAME": "eth0", "NCCL_SOCKET_IFNAME": "docker0"}, False, "eth0"),
    "neither is set": ({}, False, None),
    "none of gloo exists": ({"GLOO_SOCKET_IFNAME": "eth7"}, False, None),
    # `^`: NCCL takes any interface except these.
    "any of NCCL except these": ({"NCCL_SOCKET_IFNAME": "^docker0,lo"}, False, None),
    "a prefix of NCCL": ({"NCCL_SOCKET_IFNAME": "eth"}, False, "eth0"),  # a prefix, unless it is preceded by `=`
    "a whole name of NCCL that does not exist": ({"NCCL_SOCKET_IFNAME": "=eth"}, False, None),
}


@pytest.mark.parametrize(("env", "one_host", "name"), INTERFACES.values(), ids=INTERFACES)
def test_interface_is_loopback_on_one_host_and_else_that_of_gloo_or_nccl(sys_root, env, one_host, name):
    assert job_interface_name(env, one_host, sys_root) == name


def test_interface_is_unknown_without_sys(sys_root):
    assert job_interface_name({"NCCL_SOCKET_IFNAME": "eth"}, one_host=False, sys=sys_root / "none") is None


def test_interface_without_readable_counters_is_none(sys_root):
    (sys_root / "class/net/eth0/statistics/tx_bytes").unlink()
    assert job_interface({"GLOO_SOCKET_IFNAME": "eth0"}, one_host=False, sys=sys_root) is None
    assert job_interface({}, one_host=True, sys=sys_root).name == "lo"


def test_counters_are_read_from_the_open_files_and_may_be_unknown(sys_root):
    interface, file = JobInterface("eth0", sys_root), sys_root / "class/net/eth0/statistics/tx_bytes"
    assert interface.read() == (101, 201)  # sent and received
    file.write_text("5000\n")
    assert interface.read() == (5000, 201)
    file.write_text("")
    assert interface.read() is None


def test_interface_that_does_not_exist_is_an_error(sys_root):
    with pytest.raises(OSError, match="eth7"):
        JobInterface("eth7", sys_root)
