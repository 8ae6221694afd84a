"""Ranks that never met at the store, and connections that break: who waited in vain, and who is one of a pair."""

from dataclasses import replace

from tests.build import NOW, dead, disconnected, rank_state, terminated, words
from tests.detectors.stalls import QUIET, due, row
from zmon.schema.host import HostSample, HostWindow, TcpSample
from zmon.schema.rank import RankState

MESH = (
    "Gloo connectFullMesh failed with [/gloo/transport/tcp/pair.cc:152] timed out connecting: SO_ERROR: Connection "
    "refused, remote=[127.0.0.1]:58262$0"
)
LOST_STORE = "Failed to recv, got 0 bytes. Connection was likely closed. Did the remote server shutdown or crash?"
CONNECTING = 'File "rendezvous.py", line 190 in _create_c10d_store\n  File "rendezvous.py", line 280 in _env_rendezvous'
WAITING = 'File "distributed_c10d.py", line 2101 in _new_process_group_helper\n  File "distributed_c10d.py", line 1800'
LOADING = 'File "dataset.py", line 12 in read'
HOSTS = ("node-a", "node-b", "node-c", "node-d")
START = {"activity": "init", "steps": 0, "sequences": {}, "in_flight": None}


def starting(rank: int) -> RankState:
    return rank_state(rank, **START)


def stopped_by(rank: int, ago: float, message: str, type_: str = "torch.distributed.DistNetworkError") -> RankState:
    """Return a rank that an error ended in init so many seconds ago."""
    return dead(rank, ago, exit_status="exit code 1", last_words=words("exception", type_, message, NOW - ago), **START)


def gave_up(rank: int, ago: float = 3.0) -> RankState:
    """Return a rank that waited for the others in vain."""
    return stopped_by(rank, ago, "wait timeout after 6000ms, keys: /default_pg/0", "torch.distributed.DistStoreError")


def lost_store(rank: int, ago: float = 2.9) -> RankState:
    """Return a rank whose store gave up or died while the rank waited there."""
    return stopped_by(rank, ago, LOST_STORE)


def refused(rank: int, ago: float = 3.0) -> RankState:
    """Return a rank that did not reach another one."""
    return stopped_by(rank, ago, MESH, "builtins.RuntimeError")


def ended_at(rank: int, stack: str, ago: float = 2.0) -> RankState:
    """Return a rank that its launcher ended, with its stack."""
    return terminated(rank, ago, last_words=words("signal", "SIGTERM", stack, NOW - ago), **START)


def victim(rank, ago, peer, host=None, wrapped=False):
    """Return a rank whose connection to the host with the number `peer` broke so many seconds ago."""
    error = f"[gloo/transport/tcp/pair.cc:534] Connection reset by peer [10.0.0.{peer + 1}]:9401"
    last_words = words("exception", "builtins.RuntimeError", error, NOW - ago)
    if wrapped:
        root = f"builtins.RuntimeError: {error}"
        last_words = replace(last_words, type="train.StepError", message="the step failed", root=root)
    return disconnected(rank, 1.0, last_words=replace(last_words, in_collective=True), host=host or HOSTS[rank])


def windows():
    """Return the hardware of the hosts. The connections of the dead ranks are gone, and with them the addresses."""
    earlier = [HostSample(tcp=TcpSample(0, (), (f"10.0.0.{number + 1}",))) for number in range(4)]
    return [HostWindow(h, 60.0, e, HostSample(tcp=TcpSample(0, ()))) for h, e in zip(HOSTS, earlier, strict=True)]


PAIR = [victim(1, 2.0, 2, wrapped=True), victim(2, 1.995, 1, wrapped=True), victim(0, 1.2, 2), victim(3, 1.2, 2)]

STORE = (
    row("a rank waits at the store until its launcher ends it", due("rendezvous_failed", 1),
        [gave_up(0), ended_at(1, CONNECTING), ended_at(2, WAITING), gave_up(3, 2.9)]),
    row("rank 0 hosts the store and waits there for another rank", due("rendezvous_failed", 1),
        [ended_at(0, CONNECTING), ended_at(1, CONNECTING), gave_up(2), gave_up(3, 2.9)]),
    row("rank 0 alone does not reach the store of torchrun's agent", due("rendezvous_failed", 0),
        [ended_at(0, CONNECTING), *map(gave_up, (1, 2, 3))]),
    row("rank 0 is not yet at the store, and another rank neither", due("rendezvous_failed", 0, 1),
        [ended_at(0, LOADING), ended_at(1, CONNECTING), gave_up(2), gave_up(3, 2.9)]),
    row("one rank gave up, and the others may be about to", QUIET, [gave_up(0, 1.0), *map(starting, (1, 2, 3))]),
    row("one rank does not give up with the others", due("rendezvous_failed", 1),
        [gave_up(0, 8.0), starting(1), gave_up(2, 6.6), gave_up(3, 7.0)]),
    row("the store gave up, and one rank had not reached it", due("rendezvous_failed", 1),
        [gave_up(0), ended_at(1, CONNECTING), lost_store(2), lost_store(3)]),
    row("all ranks lost the store", due("rendezvous_failed", "node-a"), [lost_store(rank, 3.0) for rank in range(4)]),
    row("all ranks waited", due("rendezvous_failed", "node-a"),
        [gave_up(0), *(ended_at(rank, WAITING) for rank in (1, 2, 3))]),
    row("one rank did not reach another rank", due("rendezvous_failed", "node-a"),
        [refused(0), *(ended_at(rank, WAITING) for rank in (1, 2, 3))],
        says="rank 0 on node-a could not connect to 127.0.0.1:58262"),
    row("the connection between two hosts is reset, and each error has the address of the other",
        due("connection_lost", "node-b", "node-c"), PAIR, "the pair is in the evidence", hardware=windows()),
    row("the addresses in the errors are of other hosts", due("connection_lost"),
        [victim(0, 1.2, 2), victim(1, 2.0, 3), victim(2, 1.995, 3), victim(3, 1.2, 2)],
        **{"hardware": windows()}),
    row("two ranks lose their connection, and the others are ended on other hosts", due("connection_lost"),
        [*PAIR[:2], *(terminated(rank, host=HOSTS[rank]) for rank in (0, 3))]),
)  # fmt: skip
