"""Rows of jobs in which a host, or only its agent, does not answer; it is lost only if the others wait for it."""

from __future__ import annotations

from dataclasses import replace

from tests.build import agent_status, disconnected, rank_state, snapshot, waiting
from tests.detectors.network.hosts import NODES
from tests.detectors.stalls import Row, inside, outside
from zmon.schema.host import HostSample, HostWindow, TcpSample

UNKNOWN = "unknown, warning, nobody"
ADDRESSES = {"node-a": ("10.0.0.1",), "node-b": ("10.0.0.2",), "node-c": ("10.0.0.3",)}
SAME_ADDRESS = dict.fromkeys(("node-b", "node-c"), ("10.0.0.3",))
# Ranks on hosts whose agents are silent, in their last reports.
AWAY = [waiting(rank, host="node-b", in_flight=None) for rank in (2, 3)]
FAR = [waiting(rank, host="node-c", in_flight=None) for rank in (4, 5)]


def silent(seconds, *ranks, host_is_up=False, **changes):
    """Return a job of four whose ranks 2 and 3 are on node-b, whose agent has been silent for these seconds."""
    agents = [agent_status("node-a"), replace(agent_status("node-b", seconds), host_is_up=host_is_up)]
    away = [replace(r, **changes) for r in AWAY]
    return snapshot(*(ranks or (waiting(0), waiting(1))), unwatched=away, agents=agents)


def silent_hosts(answers, *ranks, addresses=ADDRESSES, seconds=(3.0, 3.0)):
    """Return a job of six; the agents of node-b and node-c are silent, and node-a asked both hosts for an answer."""
    tcp = TcpSample(0, (), ("10.0.0.1",), ("eth1",), answers=answers)
    window = HostWindow("node-a", 60.0, HostSample(), HostSample(tcp=tcp))
    agents = [agent_status(f"node-{host}", time) for host, time in zip("abc", (0.0, *seconds), strict=True)]
    ranks = ranks or tuple(waiting(rank, world_size=6) for rank in (0, 1))
    return replace(snapshot(*ranks, unwatched=[*AWAY, *FAR], agents=agents, hardware=[window]), addresses=addresses)


def died(answers=None, seconds=(8.0, 8.0)):
    """Return the job of six after all ranks of node-a died of broken connections."""
    ranks = [disconnected(rank, 6.0, world_size=6, step_seconds=7.0) for rank in (0, 1)]
    return silent_hosts(answers, *ranks, seconds=seconds)


def broken(seconds):
    """Return a job whose ranks on two hosts died of broken connections; the agent of the third is silent."""
    ranks = [disconnected(rank, host=host) for rank, host in enumerate(NODES[:2])]
    agents = [agent_status("node-a"), agent_status("node-b"), agent_status("node-c", seconds)]
    return snapshot(*ranks, unwatched=[rank_state(r, host="node-c") for r in (2, 3)], agents=agents)


def on_gpus(counts, phase="backward"):
    """Return two ranks on GPUs that have issued these numbers of collectives."""
    return [outside(r, phase, sequences={"0": count}, device=f"GPU-{r}") for r, count in enumerate(counts)]


LONG = {"lease_seconds": 60.0, "overdue_seconds": 40.0}
LOST, LOST_ALL = "host_lost, critical, ranks 2, 3", "host_lost, critical, ranks 2, 3, 4, 5"
DEAD = "unknown, critical, nobody"
B, C = "10.0.0.2", "10.0.0.3"
HOSTS = (
    Row("a host's agent is silent, and the others wait for its ranks", LOST, silent(3.0),
        "node-b has not answered for 3.0 s"),
    Row("a host's agent is silent for 1 s", "quiet", silent(1.0), note="it may restart"),
    Row("an agent is silent, and its host refuses the connection of the hub", UNKNOWN, silent(30.0, host_is_up=True),
        note="the host is up, and only its agent is gone"),
    *(Row(f"a host's agent is silent for {seconds:g} s, and the last step was {step:g} s ago", LOST,
          silent(seconds, *(inside(rank, seconds=step) for rank in (0, 1))),
          note="the last step and the last answer were at about the same time")
      for seconds, step in ((5.0, 5.2), (5.0, 4.1))),
    Row("an agent is silent, and the ranks of its host had finished", UNKNOWN, silent(5.0, activity="done")),
    Row("an agent is silent, and a rank on another host is behind", UNKNOWN, silent(5.0, waiting(0), outside(1))),
    Row("the ranks trained on for an hour after the agent fell silent", UNKNOWN,
        silent(3600.0, waiting(0, 7.0), waiting(1, 7.0))),
    Row("an agent is silent for 120 s, and the others, with leases of 60 s, finished a step 20 s later", LOST,
        silent(120.0, *(waiting(rank, 100.0, **LONG) for rank in (0, 1)))),
    Row("an agent is silent, and the job moves", "quiet", silent(60.0, rank_state(0), rank_state(1))),
    Row("an agent is silent, and all other ranks load data", UNKNOWN,
        silent(5.0, outside(0, "data"), outside(1, "data"))),
    Row("an agent is silent, and all others, on GPUs, have issued the same number of collectives", LOST,
        silent(5.0, *on_gpus((300, 300)))),
    Row("an agent is silent, and one of the others, on GPUs, is behind", UNKNOWN, silent(5.0, *on_gpus((300, 301)))),
    Row("an agent is silent, and all others, on GPUs, load data", UNKNOWN,
        silent(5.0, *on_gpus((300, 300), "data")), note="all may wait for the same storage"),
    Row("two agents are silent, and one of their hosts answers another host", LOST, silent_hosts({B: False, C: True})),
    Row("two agents are silent, and both hosts answer", UNKNOWN, silent_hosts({B: True, C: True})),
    *(Row(f"two agents are silent, and {why}", LOST_ALL, silent_hosts(answers, addresses=addresses))
      for why, answers, addresses in (
          ("nobody asked their hosts", None, ADDRESSES), ("no address is known", {C: True}, {}),
          ("both hosts have the same address", {C: True}, SAME_ADDRESS),
          ("no host answers", {B: False, C: False}, ADDRESSES))),
    Row("an agent is silent for 6 s, and all other ranks died of broken connections", LOST, broken(6.0)),
    Row("an agent is silent for 3 s, and all other ranks died of broken connections", "quiet", broken(3.0)),
    Row("the other ranks died, two agents are silent, and one of their hosts answers", LOST, died({B: False, C: True})),
    Row("the other ranks died, and one of two silent agents fell silent long before", LOST,
        died(seconds=(8.0, 3600.0))),
    Row("the other ranks died, two agents are silent, and both hosts answer", DEAD, died({B: True, C: True}),
        "agents of node-b, node-c do not answer"),
    Row("the other ranks died, and both silent agents fell silent long before", DEAD,
        died(seconds=(3600.0, 3600.0)), "agents of node-b, node-c do not answer"),
    Row("the other ranks died, two agents are silent, and nothing shows that a host is up", LOST_ALL, died()),
)  # fmt: skip
