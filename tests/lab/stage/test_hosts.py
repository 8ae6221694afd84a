"""Tests of hosts in network namespaces: links, clocks, removal of leftovers, and the finding about a cut link."""

import asyncio
import os
import subprocess
import sys
import time
from itertools import combinations

import pytest

from lab.drills.session import open_stage
from lab.libraries.clock import Clock, library
from lab.stage import JobSpec, network
from lab.stage.cluster import NAMES, Cluster, agent_url
from tests.boxes import eventually
from zmon.errors import UsageError
from zmon.web.addresses import AGENT_PORT

pytestmark = pytest.mark.drill

CONNECT = "import socket, sys; socket.create_connection((sys.argv[1], 1), timeout=0.3)"

needs_hosts = pytest.mark.skipif(network.why_not() is not None, reason=str(network.why_not()))


def namespaces():
    return os.listdir("/run/netns") if os.path.isdir("/run/netns") else []  # noqa: PTH112, PTH208


@pytest.fixture
def hosts():
    """Three hosts that reach each other."""
    made = list(network.make_hosts(["a", "b", "c"]).values())
    try:
        assert eventually(lambda: all(reaches(one, other) for one, other in combinations(made, 2)), 5)
        yield made
    finally:
        network.remove_hosts(made)


def run_on(host, *command):
    return subprocess.run(host.inside(command), capture_output=True, text=True, check=False)


def reaches(host, other):
    """Return True if packets reach the other host. It has no server, so it refuses the connection."""
    return "ConnectionRefusedError" in run_on(host, sys.executable, "-c", CONNECT, other.data_address).stderr


def link_state(host, device):
    return run_on(host, "cat", f"/sys/class/net/{device}/operstate").stdout.strip()


@needs_hosts
def test_cut_removes_the_data_link_of_a_host_until_reconnect(hosts):
    a, b, c = hosts
    b.cut()
    assert not reaches(a, b)
    assert reaches(a, c)
    assert (link_state(b, "eth0"), link_state(b, "mgmt0")) == ("down", "up")
    b.reconnect()
    assert eventually(lambda: reaches(a, b), 5)


@needs_hosts
def test_isolate_removes_both_links_of_a_host_until_rejoin(hosts):
    a, b, _ = hosts
    b.isolate()
    assert (link_state(b, "eth0"), link_state(b, "mgmt0")) == ("down", "down")
    b.rejoin()
    assert eventually(lambda: reaches(a, b), 5)


@needs_hosts
def test_set_bandwidth_slows_a_transfer(hosts):
    a, b, _ = hosts
    quick_seconds = transfer(a, b)
    b.set_bandwidth(2e6)
    slow_seconds = transfer(a, b)
    assert slow_seconds > 0.4 > quick_seconds  # a megabyte at 2 MB/s, and at 50 MB/s


@needs_hosts
def test_lost_packets_cut_a_host_off_from_one_other_only_until_they_pass_again(hosts):
    a, b, c = hosts
    a.lose_packets_to(b)
    assert not reaches(a, b)
    assert reaches(a, c)
    assert reaches(b, c)
    # The kernel may report the state of a new link up to a second later (net/core/link_watch.c).
    assert eventually(lambda: (link_state(a, "eth0"), link_state(b, "eth0")) == ("up", "up"), 5)
    a.pass_packets_to(b)
    assert eventually(lambda: reaches(a, b), 5)


@needs_hosts
def test_bandwidth_to_one_host_slows_no_transfer_to_another(hosts):
    a, b, c = hosts
    a.set_bandwidth_to(b, 2e6)
    assert transfer(a, b) > 0.4 > transfer(a, c)
    a.set_bandwidth(network.LINK_BYTES_PER_SECOND)
    assert transfer(a, b) < 0.4


SEND = """
import os, socket, sys, time
from zmon.agent.sources.sock_diag import dump
near = socket.create_connection((sys.argv[1], 7))
near.sendall(b"x")
print("connected", flush=True)
input()
near.sendall(b"x")
for _ in range(50):
    (connection,) = dump({os.fstat(near.fileno()).st_ino}).connections
    if connection.num_timeouts >= 2:
        break
    time.sleep(0.1)
print(connection.num_timeouts, connection.send_queue_bytes)
"""


@needs_hosts
def test_kernel_reports_timeouts_of_data_that_does_not_arrive(hosts):
    a, b, _ = hosts
    listen = (
        "import socket; s = socket.create_server(('', 7)); print(flush=True); c = s.accept()[0]; c.recv(1); input()"
    )
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen(b.inside([sys.executable, "-c", listen]), **pipes) as receiver:
        receiver.stdout.readline()
        with subprocess.Popen(a.inside([sys.executable, "-c", SEND, b.data_address]), **pipes) as sender:
            assert sender.stdout.readline() == "connected\n"
            b.lose_packets_to(a)  # the acknowledgement is lost
            timeouts, queued = sender.communicate("\n")[0].split()
        receiver.communicate("\n")
    assert int(timeouts) >= 2
    assert int(queued) == 1


def transfer(sender, receiver):
    """Return the seconds that the transfer of a megabyte takes."""
    listen = (
        "import socket; s = socket.create_server(('', 7)); print(flush=True); c = s.accept()[0]\n"
        "while c.recv(1 << 20): pass"
    )
    send = (
        "import socket, sys, time; c = socket.create_connection((sys.argv[1], 7)); begin = time.monotonic()\n"
        "c.sendall(bytes(1 << 20)); c.shutdown(1); c.recv(1); print(time.monotonic() - begin)"
    )
    with subprocess.Popen(receiver.inside([sys.executable, "-c", listen]), stdout=subprocess.PIPE) as other:
        other.stdout.readline()
        return float(run_on(sender, sys.executable, "-c", send, receiver.data_address).stdout)


@needs_hosts
def test_remove_leftovers_removes_hosts_of_a_dead_process():
    ended = subprocess.Popen(["true"])
    ended.wait()
    name = f"zmon-{ended.pid}-0"
    subprocess.run(["ip", "netns", "add", name], check=True)
    leftover = subprocess.Popen(["ip", "netns", "exec", name, "sleep", "100"])
    assert eventually(lambda: str(leftover.pid) in subprocess.getoutput(f"ip netns pids {name}"), 5)
    network.remove_leftovers()
    assert leftover.wait(5) == -9
    assert name not in namespaces()


def test_missing_root_is_refused_with_the_remedy():
    with pytest.raises(UsageError, match=r"drills on several hosts need root.*run as root, or leave these drills out"):
        network.check_possible(uid=lambda: 1000)


def test_missing_program_is_refused_with_its_package():
    with pytest.raises(UsageError, match=r"tc not found.*install iproute2"):
        network.check_possible(find=lambda name: None if name == "tc" else f"/usr/sbin/{name}")


def test_clock_shifts_the_time_of_a_running_process(tmp_path):
    clock = Clock(tmp_path / "clock", library(tmp_path))
    script = "import time\nwhile True: input(); print(time.time(), flush=True)"
    with subprocess.Popen(
        [sys.executable, "-c", script], env=os.environ | clock.environment, text=True,
        stdin=subprocess.PIPE, stdout=subprocess.PIPE,
    ) as process:  # fmt: skip

        def offset():
            process.stdin.write("\n")
            process.stdin.flush()
            return float(process.stdout.readline()) - time.time()

        assert abs(offset()) < 5
        clock.set(30)
        assert abs(offset() - 30) < 5
        process.kill()


def test_hub_and_prometheus_ask_the_agent_of_each_host(tmp_path):
    hosts = {name: network.Host(name, "", "", "", "", "", f"198.18.0.{number}") for number, name in enumerate(NAMES)}
    cluster = Cluster(tmp_path, "http://127.0.0.1:1", hosts, {}, None)
    asyncio.run(cluster.stop())
    commands = {part.name: " ".join(part.command) for part in cluster.parts}
    targets = (tmp_path / "data" / "prometheus.yml").read_text()
    for host in hosts.values():
        assert f"--bind {host.address} " in commands[f"agent-{host.name}"]
        assert agent_url(host) in commands["hub"]
        assert f"{host.address}:{AGENT_PORT}" in targets


def start_trained(stage, job_id):
    """Start a job of four ranks, and wait until it has trained for 60 steps."""
    job = stage.start(JobSpec(job_id, "ddp", ranks=4, step_seconds=0.02))

    def has_trained():
        view = stage.job(job_id)
        return view is not None and (view.step or 0) > 60

    assert eventually(has_trained, 90), (job.folder / "log").read_text()


@pytest.mark.slow  # the only whole job on four hosts
@needs_hosts
@pytest.mark.timeout(180)
def test_cut_link_makes_its_host_the_culprit(tmp_path):
    namespaces_before = set(namespaces())
    with open_stage("hosts", tmp_path) as stage:
        start_trained(stage, "cut")
        assert {rank.host for rank in stage.ranks("cut").values()} == set(stage.hosts)
        assert not stage.findings("cut")
        stage.hosts["node-2"].cut()
        (finding,) = eventually(lambda: stage.findings("cut"), 10)
        assert (finding.cause, finding.severity) == ("network_stall", "critical")
        assert (finding.hosts, finding.ranks) == (("node-2",), ())
        assert "eth0 is down" in finding.summary
    assert set(namespaces()) == namespaces_before


@pytest.mark.slow  # the only whole job on a path that is cut
@needs_hosts
@pytest.mark.timeout(240)
def test_lost_packets_name_a_pair_or_the_host_that_loses_all_of_them(tmp_path):
    with open_stage("hosts", tmp_path) as stage:
        start_trained(stage, "pair")
        first, *others = [stage.hosts[name] for name in ("node-1", "node-3", "node-0", "node-2")]

        def findings_about(*names):
            return [finding for finding in stage.findings("pair") if finding.hosts == names]

        first.lose_packets_to(others[0])
        (finding,) = eventually(lambda: findings_about("node-1", "node-3"), 20)
        assert (finding.cause, finding.ranks) == ("network_stall", ())
        assert {link.device for link in finding.evidence.links} == {"eth0"}
        first.pass_packets_to(others[0])
        assert eventually(lambda: not stage.findings("pair"), 30)
        for other in others:
            first.lose_packets_to(other)
        assert eventually(lambda: findings_about("node-1"), 20)
