"""The grammar of random compositions, and the draw of one: a job and the faults that strike it. Pure.

A composition depends only on its seed and its number, so that every composition can be played again.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from random import Random
from typing import Literal, get_args

Launcher = Literal["torchrun", "mpirun", "spawn", "none"]
Place = Literal["data", "forward", "backward", "collective", "optimizer", "between", "loader_start", "init"]
Model = Literal["ddp", "dlrm", "hybrid", "stages"]
What = Literal[  # in this order, compositions with successive numbers go through all of them
    "raise",  # a rank raises an exception
    "raise_wrapped",  # the same, and the job raises its own exception from it
    "raise_hung",  # the same, and the exit handlers of the rank never end
    "raise_all",  # all ranks raise
    "kill",  # SIGKILL to a rank
    "kill_host",  # SIGKILL to all ranks of a host
    "term",  # SIGTERM to a rank
    "term_host",  # SIGTERM to all ranks of a host
    "abort",  # a rank aborts
    "exit_zero",  # a rank exits with code 0 while the others train
    "exit_code",  # a rank exits with another code
    "no_rendezvous",  # a rank does not reach the store of the rendezvous
    "launcher_kill",  # SIGKILL to a launcher, whose ranks go on
    "launcher_dies",  # SIGKILL to a launcher, and SIGTERM to its ranks
    "stop",  # SIGSTOP to a rank
    "block",  # a rank computes for ever
    "block_all",  # all ranks compute for ever
    "disk",  # a rank waits for a disk for ever
    "skip",  # a rank leaves out a collective
    "size",  # a rank brings another size into a collective
    "reset",  # the connection between two ranks is reset
    "host_lost",  # no other host and no hub reaches a host any more
    "host_pause",  # a virtual machine stops, with its ranks and its agent
    "link_cut",  # the ranks of a host reach no other host
    "pair_cut",  # two hosts do not reach each other
    "cancel",  # the owner ends the job
    "finish",  # all ranks have trained to the end
    "pause",  # a rank takes some seconds longer once
    "pause_all",  # all ranks do
    "agent_restart",  # an agent ends, and another begins
    "hub_restart",  # the hub ends, and another begins
    "clock_jump",  # the clock of a host is set
    "slow",  # a rank takes longer in every step
    "jitter",  # one rank takes longer in every step, each time another one
    "swallow",  # a rank catches an exception in a step, and goes on with the next batch
]
KINDS: tuple[What, ...] = get_args(What)
LAUNCHERS_END: tuple[What, ...] = ("launcher_kill", "launcher_dies")
PARTS: tuple[What, ...] = ("agent_restart", "hub_restart", "clock_jump")  # these strike zmon, not the job
QUIET: tuple[What, ...] = ("cancel", "finish", "pause", "pause_all", *PARTS)  # harmless
EVERYBODY: tuple[What, ...] = ("raise_all", "block_all", "pause_all", "finish")  # these strike all ranks
MAY_HEAL: tuple[What, ...] = ("stop", "host_pause", "link_cut", "pair_cut")  # these may end by themselves
NEEDS_HOSTS: tuple[What, ...] = ("host_lost", "host_pause", "link_cut", "pair_cut", "term_host")  # several of them
AS_SECOND: tuple[What, ...] = (  # these may follow another fault
    "raise", "kill", "stop", "block", "exit_zero", "skip", "size", "pause", "cancel", "term", "link_cut",
    *PARTS,
)  # fmt: skip
AT_ANY_TIME: tuple[What, ...] = ("kill", "stop", "cancel", "term", "link_cut", *PARTS)  # not only in a step

# These strike a job of one rank too. The others need peers, and a SIGTERM to the only rank may be that of its owner.
ONE_RANK: tuple[What, ...] = (
    "raise", "raise_wrapped", "raise_hung", "kill", "abort", "exit_code", "stop", "block", "disk", "pause", "cancel",
    "finish", *PARTS,
)  # fmt: skip

PAUSE_SECONDS = 18.0  # the longest pause of a composition: below the earliest page of a stall that silence proves
STEP_SECONDS = (0.05, 0.25, 2.0)  # shorter steps have the same lease as those of 50 ms, and take longer to simulate
WARM_SECONDS = 12.0  # the training before the fault: the leases are learned by then
WARM_STEPS = 14
_MESSAGES = (
    "bad sample in shard 17",
    "HTTPSConnectionPool(host='s3', port=443): Connection reset by peer",
    "read timeout while fetching part-0007",
    "connection refused by feature store",
    "CUDA error: device-side assert triggered",
    "",
)
_TYPES = ("builtins.ValueError", "builtins.RuntimeError", "builtins.OSError", "botocore.exceptions.ReadTimeoutError")


@dataclass(frozen=True)
class Shape:
    """A job: its kind, launcher, ranks and pace."""

    model: Model = "ddp"
    launcher: Launcher = "torchrun"
    max_restarts: int = 0
    hosts: int = 1
    ranks: int = 4
    step_seconds: float = 0.25
    noise: float = 0.1  # sigma of the log-normal distribution of self times
    device: Literal["cpu", "cuda"] = "cpu"  # on `cuda` a rank issues a collective and goes on
    wraps: bool = False  # the job raises its own exception from each that reaches its loop
    handles_term: bool = False  # the job handles SIGTERM and exits with code 143
    import_seconds: float = 0.0  # until a process that a launcher starts again has imported torch
    senders_known: bool = True  # the probe tells who sent a signal; it has its C module then
    statuses_known: bool = True  # the kernel tells the exit status of a process
    eval_steps: int = 0  # steps between two evaluations; 0: none
    eval_by: Literal["all", "first"] = "all"
    checkpoint_steps: int = 0
    checkpoint_shown: bool = True  # False: it is saved by a library that no hook watches
    watchdog_seconds: float = 0.0  # on `cuda` a rank ends that has waited this long in a collective; 0: never

    def host_of(self, rank: int) -> int:
        """Return the number of the host that the rank runs on."""
        return rank * self.hosts // self.ranks


@dataclass(frozen=True)
class Strike:
    """One fault: what happens, to whom, at which place of which step, and after which time it heals."""

    what: What
    rank: int = 0  # for a fault of a host: a rank on it
    peer: int | None = None  # the other rank of a connection, or a rank of the other host of a pair
    step: int = 20  # 0: during init
    place: Place = "forward"
    op: int = 0  # for place `collective`: its position in the step
    seconds: float | None = None  # it ends by itself after this time; None: never
    amount: float = 0.0  # slow, jitter: added self time in steps; a fault from outside strikes `amount / 8` steps later
    message: str = ""
    type: str = "builtins.ValueError"
    code: int = 1  # the exit code
    to: Literal["launcher", "ranks"] = "launcher"  # the receiver of the owner's signal
    signal: Literal["SIGTERM", "SIGINT"] = "SIGTERM"  # the signal of the owner
    after: float | None = None  # it strikes this long after the first fault, whatever the ranks do then


@dataclass(frozen=True)
class Composition:
    """A job with the faults that strike it. The same seed and number draw the same composition."""

    seed: int
    number: int
    shape: Shape
    strikes: tuple[Strike, ...] = field(default_factory=tuple)

    @property
    def random(self) -> Random:
        """The random generator of everything that the composition leaves open, such as the noise."""
        return Random(f"{self.seed} {self.number} play")

    def __str__(self) -> str:
        shape = self.shape
        job = f"{shape.model} {shape.launcher} {shape.ranks} ranks on {shape.hosts} hosts, {shape.step_seconds:g} s"
        strikes = ", then ".join(
            f"{strike.what} of rank {strike.rank} at {strike.place} of step {strike.step}" for strike in self.strikes
        )
        return f"{strikes or 'nothing'} [{job}, {shape.device}]"


def compose(seed: int, number: int) -> Composition:
    """Draw the composition with this number; successive numbers go through all kinds of faults."""
    draw = Random(f"{seed} {number}")
    what = KINDS[number % len(KINDS)]
    # A second generator: these draws were added later, and the compositions that tests name must stay the same.
    second_draw = Random(f"{seed} {number} later")
    import_seconds = second_draw.choice((0.0, 5.0, 60.0))
    shape = replace(_shape(draw, what), import_seconds=import_seconds, senders_known=second_draw.random() < 0.8)
    if what in ONE_RANK and Random(f"{seed} {number} one rank").random() < 0.1:
        shape = replace(shape, ranks=1, hosts=1)  # a script without a process group
    strikes = [_strike(draw, shape, what)]
    if draw.random() < 0.25:
        strikes.append(_second(draw, shape, strikes[0]))
    return Composition(seed, number, shape, tuple(strikes))


def _shape(draw: Random, what: What) -> Shape:
    """Draw a job that this fault can strike."""
    hosts = draw.choice((2, 4)) if what in NEEDS_HOSTS else draw.choice((1, 1, 2, 4))
    launchers: tuple[Launcher, ...] = ("torchrun", "torchrun", "mpirun", "none")
    launcher = draw.choice((*launchers, "spawn") if hosts == 1 else launchers)
    if what in LAUNCHERS_END:
        launcher = "torchrun"
    if what == "term_host" and launcher == "mpirun":
        launcher = "none"  # mpirun ends the ranks of all hosts within 0.1 s, which looks like the end by an owner
    device: Literal["cpu", "cuda"] = "cpu" if what == "reset" else draw.choice(("cpu", "cpu", "cuda"))
    return Shape(
        model=draw.choice(("ddp", "dlrm", "hybrid", "stages")),
        launcher=launcher,
        max_restarts=draw.choice((0, 0, 2)) if launcher == "torchrun" else 0,
        hosts=hosts,
        ranks=draw.choice([number for number in (2, 3, 4, 6, 8) if number >= hosts and number % hosts == 0]),
        step_seconds=draw.choice(STEP_SECONDS),
        noise=draw.choice((0.02, 0.1, 0.3)),
        device=device,
        wraps=draw.random() < 0.25,
        handles_term=draw.random() < 0.15,
        # Without the status of a launcher its death cannot be told from the end of the job by its owner.
        statuses_known=draw.random() < 0.8 or what == "launcher_dies",
        eval_steps=draw.choice((0, 0, 30)),
        eval_by=draw.choice(("all", "first")),
        checkpoint_steps=draw.choice((0, 25)),
        checkpoint_shown=draw.random() < 0.6,
        watchdog_seconds=draw.choice((0.0, 45.0)) if device == "cuda" else 0.0,
    )


def _strike(draw: Random, shape: Shape, what: What) -> Strike:
    """Draw a fault of one kind: its rank, its place, and its details."""
    rank = draw.randrange(shape.ranks)
    places: tuple[Place, ...] = ("data", "forward", "backward", "collective", "optimizer", "between")
    warm = WARM_STEPS + int(WARM_SECONDS / shape.step_seconds)
    may_strike_at_init = what in ("raise", "kill", "stop", "exit_code", "cancel")
    at_init = what == "no_rendezvous" or (may_strike_at_init and _by_chance(draw, 0.15))
    if what in ("pause", "pause_all"):
        places = (*places[:3], "between", "loader_start")
    elif what == "finish":
        places = ("between",)
    elif what in ("skip", "size"):
        places = ("collective",)
    elif what in ("slow", "jitter"):
        places = ("data", "forward")
    elif what == "disk":
        places = ("between", "data")
    others = [other for other in range(shape.ranks) if other != rank]
    if what == "pair_cut":
        others = [other for other in others if shape.host_of(other) != shape.host_of(rank)]
    return Strike(
        what=what,
        rank=rank,
        peer=draw.choice(others) if what in ("reset", "pair_cut") else None,
        step=0 if at_init else warm + draw.randrange(12),
        place="init" if at_init else draw.choice(places),
        op=draw.randrange(4),
        seconds=_seconds(draw, what),
        amount=draw.choice((0.5, 1.0, 2.0)),
        message=draw.choice(_MESSAGES),
        type=draw.choice(_TYPES),
        code=draw.choice((1, 2, 7, 137)),
        to=draw.choice(("launcher", "ranks")),
        signal=draw.choice(("SIGTERM", "SIGINT")),
    )


def _seconds(draw: Random, what: What) -> float | None:
    """Draw the time after which a fault ends by itself; None if it never does."""
    if what in ("pause", "pause_all"):
        return draw.choice((2.0, 4.0, 8.0, 12.0, PAUSE_SECONDS))
    if what in ("agent_restart", "hub_restart"):
        return draw.uniform(1.0, 4.0) if _by_chance(draw, 0.7) else draw.uniform(10.0, 60.0)
    return draw.choice((6.0, 15.0, 40.0)) if what in MAY_HEAL and _by_chance(draw, 0.4) else None


def _second(draw: Random, shape: Shape, first: Strike) -> Strike:
    """Draw a second fault, which strikes within seconds of the first one: at a place of a step, or at any time."""
    kinds = [what for what in AS_SECOND if shape.hosts > 1 or what not in NEEDS_HOSTS]
    if shape.ranks == 1:
        kinds = [what for what in kinds if what in ONE_RANK]
    second = _strike(draw, shape, draw.choice(kinds))
    if second.what in AT_ANY_TIME and _by_chance(draw, 0.6):
        return replace(second, step=first.step, after=draw.choice((0.05, 0.5, 3.0, 8.0, 25.0)))
    near = max(1, first.step + int(draw.uniform(-2.0, 2.0) / shape.step_seconds))
    place: Place = "forward" if second.place == "init" else second.place
    return replace(second, step=near, place=place)


def _by_chance(draw: Random, probability: float) -> bool:
    return draw.random() < probability
