"""The training script of a simulated rank: a generator of instructions to the world. Pure.

A script starts, meets the other ranks, and trains: in each step it loads a batch, computes, and calls the collectives
of its model. Faults strike at the places of a step; see strikes.py.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass
from random import Random
from typing import NamedTuple
from zlib import crc32  # chooses the slow rank of each step, without a period

from lab.simulator.composition import EVERYBODY, Shape, Strike
from lab.simulator.instructions import BYTES, Call, EndStep, Enter, Instruction, Meet, Spend, Sync, Turn
from lab.simulator.strikes import instructions_of

DATA_SHARE, FORWARD_SHARE, BACKWARD_SHARE, OPTIMIZER_SHARE = 0.15, 0.35, 0.3, 0.1
OP_SHARE = 0.02  # computation after each collective
IN_STEP = ("slow", "jitter", "swallow")  # these change a step itself: `slow` and `jitter` all steps from then on
FIRST_STEP_FACTOR = 8.0  # the first step connects and compiles


class Op(NamedTuple):
    """A collective in every step of a model."""

    op: str
    group: str
    members: tuple[int, ...]


def ops(shape: Shape, rank: int) -> list[Op]:
    """Return the collectives of a step on this rank, in the order of its program."""
    everyone = tuple(range(shape.ranks))
    if shape.model == "ddp":
        return [Op("all_reduce", "0", everyone), Op("all_to_all", "0", everyone)]
    if shape.model == "dlrm":
        return [*(Op("all_to_all", "0", everyone),) * 3, Op("all_reduce", "0", everyone)]
    if shape.model == "stages":  # the last ranks do other work than the first ones
        half = [member for member in everyone if (2 * member < shape.ranks) == (2 * rank < shape.ranks)]
        stage = "first" if 2 * rank < shape.ranks else "last"
        gathers = () if stage == "first" else (Op("all_gather", stage, tuple(half)),) * 2
        inner = [*gathers, Op("all_reduce", stage, tuple(half))] if len(half) > 1 else []
        return [*inner, Op("all_reduce", "0", everyone)]
    pair = rank // 2  # `hybrid`: tensor parallel in pairs of ranks, data parallel between the pairs
    partners = tuple(member for member in everyone if member // 2 == pair)
    peers = tuple(member for member in everyone if member % 2 == rank % 2)
    inner = [Op("all_gather", f"tp{pair}", partners)] if len(partners) > 1 else []
    outer = [Op("reduce_scatter", f"dp{rank % 2}", peers)] if len(peers) > 1 else []
    return [*inner, *outer, Op("all_reduce", "0", everyone)]


@dataclass
class RankScript:
    """The script of one rank. `armed` has the faults that may strike in this launch."""

    shape: Shape
    rank: int
    draw: Random
    armed: list[Strike]

    def run(self) -> Iterator[Instruction]:
        """Yield the instructions of the rank: start, meet, train."""
        yield Spend("other", self.draw.uniform(1.0, 3.0))
        yield from self._strikes(0, "init")
        yield Meet()
        yield Spend("other", self.draw.uniform(0.2, 1.0))
        step = 0
        script = ops(self.shape, self.rank)
        yield EndStep()
        while True:
            step += 1
            if step == 2:
                yield Turn("train")
            swallowed = yield from self._step(step, script)
            if swallowed:
                continue  # the script has caught an exception, and takes the next batch without an update
            yield EndStep()
            yield from self._between(step)

    def _step(self, step: int, script: Sequence[Op]) -> Generator[Instruction, None, bool]:
        """Yield the instructions of one step; return True if an exception of the step was swallowed."""
        strikes = [strike for strike in self.armed if strike.step == step and self._strikes_rank(strike)]
        for strike in strikes:
            if strike.what in IN_STEP:
                yield Call(strike)
        factor = FIRST_STEP_FACTOR if step == 1 else 1.0
        yield from self._strikes(step, "loader_start")
        yield from self._strikes(step, "data")
        yield Spend("data", self._seconds(DATA_SHARE, "data", step))
        swallowed = [strike for strike in strikes if strike.what == "swallow"]
        if swallowed and swallowed[0].place in ("data", "forward"):
            return True
        forward, backward = self._seconds(FORWARD_SHARE, "forward", step), self._seconds(BACKWARD_SHARE, "", step)
        yield from self._strikes(step, "forward")
        yield Spend("forward", forward * factor)
        yield from self._strikes(step, "backward")
        yield Spend("backward", backward)
        for number, op in enumerate(script):
            if swallowed and number == 1 + swallowed[0].op % len(script):
                return True
            in_collective = [strike for strike in strikes if strike.place == "collective"]
            faults = {strike.what for strike in in_collective if strike.op % len(script) == number}
            yield from self._strikes(step, "collective", number, len(script))
            if "skip" in faults:
                continue
            yield Enter(op.op, op.group, op.members, 2 * BYTES if "size" in faults else BYTES)
            yield Spend("backward", self._seconds(OP_SHARE, "", step))
        yield Sync()
        yield from self._strikes(step, "optimizer")
        yield Spend("optimizer", self._seconds(OPTIMIZER_SHARE, "", step))
        return False

    def _between(self, step: int) -> Iterator[Instruction]:
        """Yield the instructions from the end of this step to the next one: an evaluation, a checkpoint."""
        shape = self.shape
        everyone = tuple(range(shape.ranks))
        yield from self._strikes(step, "between")
        if shape.eval_steps and step % shape.eval_steps == 0:
            if shape.eval_by == "all" or self.rank == 0:
                yield Turn("eval")
                yield Spend("forward", self.draw.uniform(2.0, 6.0))
                yield Turn("train")
            yield Enter("barrier", "0", everyone, 0, waits=True)
        if shape.checkpoint_steps and step % shape.checkpoint_steps == 0:
            if shape.checkpoint_shown:
                yield Turn("checkpoint")
            yield Spend("other", self.draw.uniform(0.2, 1.2))
            if shape.checkpoint_shown:
                yield Turn("train")
            yield Enter("barrier", "0", everyone, 0, waits=True)

    def _strikes(self, step: int, place: str, number: int = 0, num_ops: int = 1) -> Iterator[Instruction]:
        """Yield the instructions of the faults that strike this rank at this place.

        For place `collective`, `number` is the position of a collective in the step, which has `num_ops` of them.
        """
        for strike in self.armed:
            if (strike.step, strike.place) != (step, place) or strike.what in IN_STEP or not self._strikes_rank(strike):
                continue
            if place != "collective" or strike.op % num_ops == number:
                yield from instructions_of(strike, self.shape)

    def _strikes_rank(self, strike: Strike) -> bool:
        """Return True if a fault strikes this rank, alone or with all others."""
        return strike.rank == self.rank or strike.what in EVERYBODY

    def _seconds(self, share: float, phase: str, step: int) -> float:
        """Return the time of a part of a step, with noise, and longer while a fault slows the rank."""
        seconds = self.shape.step_seconds
        total = seconds * share * self.draw.lognormvariate(0.0, self.shape.noise)
        for strike in self.armed:
            if step >= strike.step and strike.place == phase and strike.what in ("slow", "jitter"):
                slow_rank = crc32(b"%d" % step) % self.shape.ranks if strike.what == "jitter" else strike.rank
                total += strike.amount * seconds if slow_rank == self.rank else 0.0
        return total
