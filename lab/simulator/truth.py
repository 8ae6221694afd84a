"""The right answer to each fault: the causes and culprits that zmon may report, and what proves them. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from lab.drills.targets import TARGETS
from lab.simulator.composition import EVERYBODY, PARTS, QUIET, Composition, Shape, Strike, What
from lab.simulator.program import ops
from zmon.job.lease import Leases
from zmon.schema.finding import Finding

_LEASES = Leases()

Evidence = Literal[
    "lock",  # of the black box of a process that has ended
    "state",  # of a process: stopped, waiting for a disk, or gone
    "carrier",  # of a link
    "sequence",  # of the collectives that the ranks entered
    "steps",  # the times of several of them
    "none",  # silence only
]

CAUSES: dict[What, tuple[str, ...]] = {  # all other faults have none
    **dict.fromkeys(("raise", "raise_wrapped", "raise_hung", "raise_all", "kill", "kill_host"), ("rank_exited",)),
    **dict.fromkeys(("term", "term_host", "exit_code"), ("rank_exited",)),
    **dict.fromkeys(("launcher_kill", "launcher_dies"), ("launcher_gone",)),
    **dict.fromkeys(("block_all", "pause", "pause_all"), ("compute_hang", "input_stall", "lease_overrun")),
    "abort": ("rank_exited", "collective_mismatch"),
    "exit_zero": ("uneven_end",),
    "no_rendezvous": ("rendezvous_failed",),
    "stop": ("rank_frozen",),
    # If NCCL's watchdog ends the other ranks first, the launcher ends the rank that hung: `rank_exited` is true then.
    "block": ("compute_hang", "input_stall", "lease_overrun", "rank_exited"),
    "disk": ("rank_frozen", "lease_overrun", "input_stall", "compute_hang", "rank_exited"),
    "skip": ("collective_mismatch", "sequence_lag", "uneven_end", "compute_hang"),
    "size": ("collective_mismatch",),
    "swallow": ("sequence_lag", "uneven_end", "collective_mismatch"),
    "reset": ("connection_lost",),
    "host_lost": ("host_lost",),
    "host_pause": ("host_lost", "rank_frozen"),
    "link_cut": ("network_stall", "link_down"),
    "pair_cut": ("network_stall", "network_slow"),
    "slow": ("compute_straggler", "input_straggler", "work_imbalance"),
    "jitter": ("input_jitter", "compute_jitter", "input_straggler", "compute_straggler"),
}
EVIDENCE: dict[What, Evidence] = {  # all other faults have none
    **dict.fromkeys(("raise", "raise_wrapped", "raise_hung", "raise_all", "kill", "kill_host", "term"), "lock"),
    **dict.fromkeys(("abort", "exit_code", "exit_zero", "no_rendezvous", "reset"), "lock"),
    **dict.fromkeys(("stop", "disk", "launcher_kill", "launcher_dies"), "state"),
    **dict.fromkeys(("block", "skip", "size"), "sequence"),
    **dict.fromkeys(("slow", "jitter", "swallow"), "steps"),
    "link_cut": "carrier",
}
NO_CULPRIT: tuple[What, ...] = (  # a finding must name no rank
    "reset", "link_cut", "pair_cut", "jitter", "launcher_kill", "launcher_dies", "cancel", "finish", *PARTS,
)  # fmt: skip
# Only the end of a lease shows these. Before it, neither data that waits nor an agent that is silent proves a stall.
SHOWN_BY_LEASES: tuple[What, ...] = (
    "block", "block_all", "pause", "pause_all", "skip", "swallow", "pair_cut", "host_lost",
)  # fmt: skip
SHOWN_BY_STEPS: tuple[What, ...] = ("slow", "jitter")  # only the times of several steps show these
OF_HOST: tuple[What, ...] = ("host_lost", "host_pause", "kill_host", "term_host")  # these strike all ranks of a host
NEEDS_MAJORITY: tuple[What, ...] = ("size", "skip")  # in a group of two ranks nothing proves who is wrong
NOISY = 0.3  # with this noise, waiting for the slowest rank costs a tenth of each step, without any fault
CAUSES_OF_NOISE = ("input_jitter", "compute_jitter")


@dataclass(frozen=True)
class Truth:
    """The right answer to one fault that struck."""

    strike: Strike
    time: float
    causes: tuple[str, ...]
    ranks: frozenset[int]  # the ranks that a finding may name
    hosts: frozenset[int]
    evidence: Evidence
    hidden_seconds: float = 0.0  # nothing has to show the fault within this time after its onset

    @property
    def has_culprit(self) -> bool:
        """True if a finding must name somebody."""
        return self.strike.what not in NO_CULPRIT

    @property
    def is_quiet(self) -> bool:
        """True if nothing is to be paged."""
        return self.strike.what in QUIET


def truth_of(composition: Composition, strike: Strike, time: float, is_watched: bool) -> Truth:
    """Return the right answer to a fault that struck at that time.

    `is_watched`: the agent of the struck rank's host ran then. An agent that starts later cannot tell a launcher that
    was killed together with its ranks from one that ended after them.
    """
    shape = composition.shape
    hosts = {shape.host_of(strike.rank)}
    if strike.peer is not None:
        hosts.add(shape.host_of(strike.peer))
    script = ops(shape, strike.rank)
    is_undecided = strike.what in NEEDS_MAJORITY and len(script[strike.op % len(script)].members) < 3
    evidence = "none" if is_undecided else EVIDENCE.get(strike.what, "none")
    causes = CAUSES.get(strike.what, ())
    ranks = _ranks(shape, strike)
    if strike.what == "launcher_dies" and not is_watched:
        causes = (*causes, *CAUSES["term_host"])
        ranks = _ranks(shape, replace(strike, what="term_host"))
    return Truth(strike, time, causes, ranks, frozenset(hosts), evidence, _hidden_seconds(shape, strike.what))


def _hidden_seconds(shape: Shape, what: What) -> float:
    """Return the shortest lease that a job of this pace can have, or the time within which slow steps are reported."""
    if what in SHOWN_BY_LEASES:
        return _LEASES.seconds("train", [shape.step_seconds] * _LEASES.learned_after_steps) or 0.0
    if what in SHOWN_BY_STEPS:
        return TARGETS.finding_seconds("steps", shape.step_seconds, shape.step_seconds)
    return 0.0


def is_true_without_a_fault(shape: Shape, truths: Sequence[Truth], finding: Finding) -> bool:
    """Return True if a finding is about the noise of the job, which makes its steps uneven without any fault."""
    causes = {cause for truth in truths for cause in truth.causes}
    is_uneven = shape.noise >= NOISY and finding.cause in CAUSES_OF_NOISE
    return is_uneven and finding.cause not in causes and not finding.ranks and not finding.hosts


def _ranks(shape: Shape, strike: Strike) -> frozenset[int]:
    """Return the ranks that a finding about this fault may name."""
    if strike.what in NO_CULPRIT:
        return frozenset()
    if strike.what in EVERYBODY:
        return frozenset(range(shape.ranks))
    if strike.what in OF_HOST:
        host = shape.host_of(strike.rank)
        return frozenset(rank for rank in range(shape.ranks) if shape.host_of(rank) == host)
    return frozenset((strike.rank,))
