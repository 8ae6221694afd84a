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

# The proof of a fault: the lock of a dead process, a process state, a carrier, the sequence of collectives, or nothing.
Evidence = Literal["lock", "state", "carrier", "sequence", "steps", "none"]

CAUSES: dict[What, tuple[str, ...]] = {
    "raise": ("rank_exited",),
    "raise_wrapped": ("rank_exited",),
    "raise_hung": ("rank_exited",),
    "raise_all": ("rank_exited",),
    "kill": ("rank_exited",),
    "kill_host": ("rank_exited",),
    "term": ("rank_exited",),
    "term_host": ("rank_exited",),
    "abort": ("rank_exited", "collective_mismatch"),
    "exit_code": ("rank_exited",),
    "exit_zero": ("uneven_end",),
    "no_rendezvous": ("rendezvous_failed",),
    "stop": ("rank_frozen",),
    # If the watchdog ends the others before the leases end, the launcher ends the rank that hung.
    "block": ("compute_hang", "input_stall", "lease_overrun", "rank_exited"),
    "block_all": ("compute_hang", "input_stall", "lease_overrun"),
    "disk": ("rank_frozen", "lease_overrun", "input_stall", "compute_hang", "rank_exited"),
    "skip": ("collective_mismatch", "sequence_lag", "uneven_end", "compute_hang"),
    "size": ("collective_mismatch",),
    "reset": ("connection_lost",),
    "launcher_kill": ("launcher_gone",),
    "launcher_dies": ("launcher_gone",),
    "host_lost": ("host_lost",),
    "host_pause": ("host_lost", "rank_frozen"),
    "link_cut": ("network_stall", "link_down"),
    "pair_cut": ("network_stall", "network_slow"),
    "swallow": ("sequence_lag", "uneven_end", "collective_mismatch"),
    "slow": ("compute_straggler", "input_straggler", "work_imbalance"),
    "jitter": ("input_jitter", "compute_jitter", "input_straggler", "compute_straggler"),
    "pause": ("compute_hang", "input_stall", "lease_overrun"),
    "pause_all": ("compute_hang", "input_stall", "lease_overrun"),
}
EVIDENCE: dict[What, Evidence] = {
    **dict.fromkeys(("raise", "raise_wrapped", "raise_hung", "raise_all", "kill", "kill_host", "term"), "lock"),
    **dict.fromkeys(("abort", "exit_code", "exit_zero", "no_rendezvous"), "lock"),
    **dict.fromkeys(("stop", "disk"), "state"),
    **dict.fromkeys(("block", "skip", "size"), "sequence"),
    **dict.fromkeys(("slow", "jitter", "swallow"), "steps"),
    "link_cut": "carrier",
    "host_lost": "none",
    "pair_cut": "none",
    "reset": "lock",
    **dict.fromkeys(("launcher_kill", "launcher_dies"), "state"),
}
NOBODY: tuple[What, ...] = (
    "reset", "link_cut", "pair_cut", "jitter", "launcher_kill", "launcher_dies", "cancel", "finish", *PARTS,
)  # fmt: skip
# Only the lease shows these: data that waits, or an agent that is silent, proves no stall before.
SILENT: tuple[What, ...] = (
    "block", "block_all", "pause", "pause_all", "skip", "swallow", "pair_cut", "host_lost",
)  # fmt: skip
UNEVEN: tuple[What, ...] = ("slow", "jitter")  # only the times of several steps show these
NOISY = 0.3  # with this noise, waiting for the slowest rank costs a tenth of each step, without any fault
NOISY_CAUSES = ("input_jitter", "compute_jitter")
OF_HOST: tuple[What, ...] = ("host_lost", "host_pause", "kill_host", "term_host")  # these strike all ranks of a host
VOTES: tuple[What, ...] = ("size", "skip")  # a group of two ranks has no majority, so nothing proves who is wrong


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
    def is_quiet(self) -> bool:
        """True if nothing is to be paged."""
        return self.strike.what in QUIET


def truth(composition: Composition, strike: Strike, time: float, is_watched: bool) -> Truth:
    """Return the right answer to a fault that struck at that time.

    `is_watched`: the agent of the struck rank's host ran then. An agent that starts later cannot tell a launcher that
    was killed together with its ranks from one that ended after them.
    """
    shape = composition.shape
    hosts = {shape.host_of(strike.rank)}
    if strike.peer is not None:
        hosts.add(shape.host_of(strike.peer))
    script = ops(shape, strike.rank)
    undecided = strike.what in VOTES and len(script[strike.op % len(script)].members) < 3
    evidence = "none" if undecided else EVIDENCE.get(strike.what, "none")
    causes = CAUSES.get(strike.what, ())
    ranks = _ranks(shape, strike)
    if strike.what == "launcher_dies" and not is_watched:
        causes = (*causes, *CAUSES["term_host"])
        ranks = _ranks(shape, replace(strike, what="term_host"))
    return Truth(strike, time, causes, ranks, frozenset(hosts), evidence, _hidden_seconds(shape, strike.what))


def _hidden_seconds(shape: Shape, what: What) -> float:
    """Return the shortest lease that a job of this pace can have, or the time within which slow steps are reported."""
    if what in SILENT:
        return _LEASES.seconds("train", [shape.step_seconds] * _LEASES.learned_after_steps) or 0.0
    if what in UNEVEN:
        return TARGETS.finding_seconds("steps", shape.step_seconds, shape.step_seconds)
    return 0.0


def is_of_the_job(shape: Shape, truths: Sequence[Truth], finding: Finding) -> bool:
    """Return True if a finding is true of the job without any fault: its steps are as uneven as its noise is large."""
    causes = {cause for truth in truths for cause in truth.causes}
    is_uneven = shape.noise >= NOISY and finding.cause in NOISY_CAUSES
    return is_uneven and finding.cause not in causes and not finding.ranks and not finding.hosts


def _ranks(shape: Shape, strike: Strike) -> frozenset[int]:
    """Return the ranks that a finding about this fault may name."""
    if strike.what in EVERYBODY and strike.what != "finish":
        return frozenset(range(shape.ranks))
    if strike.what in OF_HOST:
        host = shape.host_of(strike.rank)
        return frozenset(rank for rank in range(shape.ranks) if shape.host_of(rank) == host)
    if strike.what in NOBODY:
        return frozenset()
    return frozenset((strike.rank,))
