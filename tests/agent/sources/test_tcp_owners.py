"""Tests of the rank that owns a socket: ranks and sockets that come and go, or that are hidden."""

import errno
import os

from tests.agent.agent_client import failing_at, raising
from tests.agent.sources.tcp_host import HOST_NAMESPACE
from tests.processes import add_process
from zmon.agent.sources import tcp
from zmon.process import ProcessId


def test_rank_without_connections_and_other_processes_have_no_peers(host):
    host.start(100, 0)
    host.start(101, 1, 11)
    host.start(200, None, 99)
    host.kernel.add(11)
    host.kernel.add(99)
    assert [p.rank for p in host.peers()] == [1]


def test_kernel_is_not_queried_on_a_host_without_ranks(host):
    host.start(200, None, 99)
    host.kernel.add(99)
    assert host.source.read().value.peers == ()
    assert host.kernel.num_dumps == 0


def test_new_socket_of_a_rank_counts_from_the_next_read(host):
    host.start(100, 0)
    host.peers()
    (host.proc / "100/fd/9").symlink_to("socket:[11]")
    host.kernel.add(11)
    assert host.peers() == ()
    assert [p.peer for p in host.peers()] == ["10.0.0.2"]


def test_rank_that_appears_later_has_its_existing_sockets(host):
    host.start(100, 0, 11)
    host.start(101, None, 21)
    host.kernel.add(21)
    host.peers()
    host.ranks = {**host.ranks, add_process(host.proc, 101): ("dlrm", 1)}
    assert [p.rank for p in host.peers()] == [1]


def test_sockets_of_other_processes_do_not_cause_a_search_at_each_read(host, monkeypatch):
    searches = []
    monkeypatch.setattr(tcp, "socket_inodes", lambda folder: searches.append(folder) or iter(()))
    host.start(100, 0)
    host.kernel.add(99)
    for _ in range(5):
        host.peers()
    assert len(searches) == 2  # one for the new rank, and one for the socket of the other process


def test_rank_in_another_network_namespace_is_reported_without_peers(host):
    host.start(100, 0, 11, namespace=HOST_NAMESPACE + 1)
    reading = host.source.read()
    assert reading.value.peers == ()
    (line,) = reading.dropped
    assert "dlrm rank 0" in line
    assert "network namespace" in line
    assert host.kernel.num_dumps == 0
    assert host.source.read().dropped == reading.dropped


def test_rank_with_unlistable_sockets_hides_no_other(host):
    host.start(100, 0, 11)
    host.start(101, 1, 21)
    host.kernel.add(21)
    (host.proc / "100/fd").rename(host.proc / "away")
    (host.proc / "100/fd").write_text("no folder")
    reading = host.source.read()
    assert [p.rank for p in reading.value.peers] == [1]
    (line,) = reading.dropped
    assert line.startswith("dlrm rank 0: cannot list its sockets: Not a directory")


def test_rank_whose_sockets_could_not_be_listed_once_has_peers_at_the_next_read(host, monkeypatch):
    host.start(100, 0, 11)
    host.kernel.add(11)
    with monkeypatch.context() as patch:
        patch.setattr(tcp, "socket_inodes", raising(OSError(errno.EMFILE, "Too many open files")))
        (line,) = host.source.read().dropped
    assert "cannot list its sockets: Too many open files" in line
    reading = host.source.read()
    assert ([p.rank for p in reading.value.peers], reading.dropped) == ([0], ())


def test_rank_that_just_ended_is_not_dropped(host):
    host.ranks = {ProcessId(100, 5000, 1000): ("dlrm", 0)}
    assert host.source.read().dropped == ()


def test_descriptor_closed_during_the_listing_hides_no_other(host, monkeypatch):
    host.start(100, 0, 11, 12)
    host.kernel.add(12)
    monkeypatch.setattr(os, "readlink", failing_at(lambda path: "socket:[12]", "fd/3", FileNotFoundError()))
    assert list(tcp.socket_inodes(host.proc / "100/fd")) == [12] * 4
