"""Rows of ranks that never met at the store, and of connections that broke: who is missing, and who is the pair."""

from dataclasses import replace

from tests.build import NOW, dead, disconnected, killed, raised, rank_state, terminated, waiting, words
from tests.detectors.endings.table import STORE_ERROR
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
STOOD = {"step_seconds": 13.5, "state_seconds": 13.4}  # since the last step, longer than the timeout of 10 s
AHEAD = {"sequences": {"0": 301}}  # one collective more than a rank has by default


def starting(rank: int) -> RankState:
    """Return a rank that lives, in init."""
    return rank_state(rank, **START)


def stopped_by(
    rank: int, ago: float, message: str, type_: str = "torch.distributed.DistNetworkError", **changes
) -> RankState:
    """Return a rank that an error ended `ago` seconds ago, by default in init."""
    last_words = words("exception", type_, message, NOW - ago)
    return dead(rank, ago, exit_status="exit code 1", last_words=last_words, **{**START, **changes})


def gave_up(rank: int, ago: float = 3.0) -> RankState:
    """Return a rank that waited for the others in vain."""
    return stopped_by(rank, ago, "wait timeout after 6000ms, keys: /default_pg/0", STORE_ERROR)


def lost_store(rank: int, ago: float = 2.9) -> RankState:
    """Return a rank whose store gave up or died while the rank waited there."""
    return stopped_by(rank, ago, LOST_STORE)


def refused(rank: int, ago: float = 3.0) -> RankState:
    """Return a rank that did not reach another one."""
    return stopped_by(rank, ago, MESH, "builtins.RuntimeError")


def ended_at(rank: int, stack: str) -> RankState:
    """Return a rank that its launcher ended two seconds ago, with its stack."""
    return terminated(rank, 2.0, last_words=words("signal", "SIGTERM", stack, NOW - 2.0), **START)


def victim(rank, ago, peer, host=None, wrapped=False):
    """Return a rank whose connection to the host with the number `peer` broke `ago` seconds ago."""
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


def timed_out(rank: int, key: str, ago: float = 3.0, **changes) -> RankState:
    """Return a rank that waited at the store during the training, for a key that no rank had set."""
    error = f"wait timeout after 10000ms, keys: /default_pg/0//{key}"
    last_words = replace(words("exception", STORE_ERROR, error, NOW - ago), in_collective=False)
    return dead(rank, ago, **{"exit_status": "exit code 1", "last_words": last_words, **STOOD, **changes})


def at_barrier(rank: int, missing: str, ago: float = 3.0) -> RankState:
    """Return a rank whose monitored_barrier gave up because of these ranks."""
    error = f"[Rank {rank}]: {missing} failed to pass monitoredBarrier in 10000 ms"
    return timed_out(rank, "", ago, last_words=words("exception", "builtins.RuntimeError", error, NOW - ago), **AHEAD)


def hung(rank: int, how=terminated, **changes) -> RankState:
    """Return a rank that stood in the job's code since its last step until its launcher ended it."""
    return how(rank, 2.9, **{**STOOD, "phase": "other", **changes})


def hanging(rank: int, **changes) -> RankState:
    """Return a rank that still stands in the job's code since its last step."""
    return rank_state(rank, **{**STOOD, "overdue_seconds": 12.0, "phase": "other", **changes})


IN_A_COLLECTIVE = {"in_flight": waiting(0).in_flight}
NEW_GROUP = "3//cpu//0/1"  # the key of the address of rank 1 in gloo's third group
HUNG = "the others had waited for it, and ended first"
# The connection between ranks 1 and 2 broke first; the others lost theirs 0.8 s later.
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
    row("all ranks lost their connection to the store", due("rendezvous_failed", "node-a"),
        [lost_store(rank, 3.0) for rank in range(4)]),
    row("one rank gave up at the store, and all others waited there", due("rendezvous_failed", "node-a"),
        [gave_up(0), *(ended_at(rank, WAITING) for rank in (1, 2, 3))]),
    row("one rank did not reach another rank", due("rendezvous_failed", "node-a"),
        [refused(0), *(ended_at(rank, WAITING) for rank in (1, 2, 3))],
        says="rank 0 on node-a could not connect to 127.0.0.1:58262"),
    row("the connection between two hosts is reset, and each error has the address of the other",
        due("connection_lost", "node-b", "node-c"), PAIR, "the pair is in the evidence", hardware=windows()),
    row("the addresses in the errors are of other hosts", due("connection_lost"),
        [victim(0, 1.2, 2), victim(1, 2.0, 3), victim(2, 1.995, 3), victim(3, 1.2, 2)],
        hardware=windows()),
    *(row(f"monitored_barrier gives up, and its error names {text.lower()}", due("rank_exited", *missing),
          [at_barrier(0, text), *(hung(r, **(AHEAD if r not in missing else {})) for r in (1, 2, 3))], says=HUNG)
      for text, missing in (("Rank 1", (1,)), ("Ranks 1, 3", (1, 3)))),
    row("monitored_barrier gives up, while the steps are longer than its timeout", due("rank_exited", 1),
        [at_barrier(0, "Ranks 1"), *(hung(r, lease_seconds=60.0, **({} if r == 1 else AHEAD)) for r in (1, 2, 3))],
        "no lease shows the hang, but the error names the rank"),
    row("monitored_barrier gives up, and the missing rank was killed before", due("rank_exited", 1),
        [at_barrier(0, "Ranks 1"), killed(1, 12.0, **STOOD), *(hung(r, **AHEAD) for r in (2, 3))]),
    row("monitored_barrier gives up, and the missing rank hangs on without a launcher", due("compute_hang", 1),
        [at_barrier(0, "Ranks 1", 9.0), hanging(1), *(disconnected(r, 8.9, **STOOD, **AHEAD) for r in (2, 3))],
        says="waited for it and are gone"),
    row("monitored_barrier of a group names rank 1, which is no rank of the group", due("rank_exited", 2),
        [replace(at_barrier(0, "Ranks 1"), sequences={"0": 300, "pair": 9}), hung(1),
         hung(2, sequences={"0": 300, "pair": 8}), hung(3)], "the number is one of the group"),
    row("a rank waits at the store for a key of a rank that hangs", due("rank_exited", 1),
        [timed_out(0, "ready-100"), hung(1), *(hung(r, **IN_A_COLLECTIVE) for r in (2, 3))], says=HUNG),
    row("all others wait at the store for a key of one rank, which raises later", due("rank_exited", 1),
        [*(timed_out(r, "ready-100") for r in (0, 2, 3)), hung(1, disconnected)]),
    row("all others wait at the store for a key of one rank, which hangs on without a launcher", due("compute_hang", 1),
        [*(timed_out(r, "ready-100", 9.0) for r in (0, 2, 3)), hanging(1)]),
    row("new_group misses a rank, and its error names the rank", due("rank_exited", 1),
        [timed_out(0, NEW_GROUP), hung(1), hung(2), hung(3)]),
    row("a rank waits at the store, and two ranks may have hung", due("unknown"),
        [timed_out(0, "ready-100"), hung(1), hung(2), hung(3, **IN_A_COLLECTIVE)],
        says="timeout at the store (wait timeout after 10000ms, keys: /default_pg/0//ready-100)"),
    row("a rank waits at the store, and another one in its backward pass", due("unknown"),
        [timed_out(0, "ready-100"), *(hung(r, phase="backward") for r in (1, 2, 3))],
        "DDP may wait there for the rank that waits at the store"),
    row("a rank raises by itself, and another one waits at the store for its key", due("rank_exited", 1),
        [raised(1, 12.0, **STOOD), timed_out(0, "ready-100"), *(hung(r, **IN_A_COLLECTIVE) for r in (2, 3))]),
    row("rank 0, which hosts the store, is killed, and another one waits there", due("rank_exited", 0),
        [killed(0, 3.1), stopped_by(1, 3.0, LOST_STORE, activity="train", steps=100), *map(hung, (2, 3))]),
    row("two ranks lose their connection, and the others are ended on other hosts", due("connection_lost"),
        [*PAIR[:2], *(terminated(rank, host=HOSTS[rank]) for rank in (0, 3))]),
)  # fmt: skip
