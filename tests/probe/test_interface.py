"""Tests of the network interface of a job.

It is the interface in the environment, or `lo` if all ranks share a host. Otherwise it is unknown.
"""

import pytest

from zmon.probe.interface import JobInterface, job_interface, job_interface_name


@pytest.fixture
def sys_root(tmp_path):
    """Make a /sys with three interfaces."""
    for number, interface_name in enumerate(("lo", "eth0", "docker0")):
        folder = tmp_path / "class/net" / interface_name / "statistics"
        folder.mkdir(parents=True)
        (folder / "tx_bytes").write_text(f"{100 + number}\n")
        (folder / "rx_bytes").write_text(f"{200 + number}\n")
    return tmp_path


def interface_name(sys_root, one_host=False, **env):
    return job_interface_name(env, one_host, sys_root)


def test_interface_of_a_job_on_a_single_host_is_loopback(sys_root):
    assert interface_name(sys_root, one_host=True) == "lo"


def test_interface_is_taken_from_the_variables_of_gloo_or_nccl(sys_root):
    assert interface_name(sys_root, GLOO_SOCKET_IFNAME="eth0") == "eth0"
    assert interface_name(sys_root, GLOO_SOCKET_IFNAME="eth7,eth0") == "eth0"
    assert interface_name(sys_root, NCCL_SOCKET_IFNAME="=eth1,eth0") == "eth0"
    assert interface_name(sys_root, GLOO_SOCKET_IFNAME="eth0", NCCL_SOCKET_IFNAME="docker0") == "eth0"


def test_interface_on_several_hosts_is_unknown_without_a_variable(sys_root):
    assert interface_name(sys_root) is None
    assert interface_name(sys_root, GLOO_SOCKET_IFNAME="eth7") is None
    assert interface_name(sys_root / "none", NCCL_SOCKET_IFNAME="eth") is None


def test_interface_excluded_for_nccl_is_not_used(sys_root):
    """`^docker0,lo` means any but these (NCCL environment variables, NCCL_SOCKET_IFNAME)."""
    assert interface_name(sys_root, NCCL_SOCKET_IFNAME="^docker0,lo") is None


def test_nccl_variable_is_a_prefix_unless_preceded_by_equals(sys_root):
    assert interface_name(sys_root, NCCL_SOCKET_IFNAME="eth") == "eth0"
    assert interface_name(sys_root, NCCL_SOCKET_IFNAME="=eth") is None


def test_interface_without_readable_counters_is_none(sys_root):
    (sys_root / "class/net/eth0/statistics/tx_bytes").unlink()
    assert job_interface({"GLOO_SOCKET_IFNAME": "eth0"}, False, sys_root) is None
    assert job_interface({}, True, sys_root).name == "lo"


def test_counters_are_read_from_the_open_files(sys_root):
    interface = JobInterface("eth0", sys_root)
    assert interface.read() == (101, 201)
    (sys_root / "class/net/eth0/statistics/tx_bytes").write_text("5000\n")
    assert interface.read() == (5000, 201)


def test_counter_that_cannot_be_read_is_unknown(sys_root):
    interface = JobInterface("eth0", sys_root)
    (sys_root / "class/net/eth0/statistics/tx_bytes").write_text("")
    assert interface.read() is None


def test_interface_that_does_not_exist_is_an_error(sys_root):
    with pytest.raises(OSError, match="eth7"):
        JobInterface("eth7", sys_root)
