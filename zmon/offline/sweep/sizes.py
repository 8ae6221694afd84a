"""Which sizes of a job are run, and with which command.

Pure. A command says where it takes its size: {ranks} is the number of ranks, {batch} the samples of a step of all of
them, {batch_per_rank} of each. torchrun's own option is known, and a Python script is started by torchrun. Weak
scaling: as many samples a rank at every size. Strong: as many in all.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass

from zmon.errors import UsageError

RANKS, BATCH, BATCH_PER_RANK = "{ranks}", "{batch}", "{batch_per_rank}"
BUNDLED_BATCH = 512  # of the bundled trainer's demo, at the smallest size
_TORCHRUN = (sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={RANKS}")
BUNDLED = (*_TORCHRUN, "-m", "trainer", "--preset", "demo", "--set", f"train.global_batch={BATCH}")
_OPTIONS = ("--nproc-per-node", "--nproc_per_node")
_PYTHON = re.compile(r"(?:.*/)?python[0-9.]*")


@dataclass(frozen=True, order=True)
class Size:
    """Of one run."""

    ranks: int
    batch: int | None  # samples of a step of all ranks; None: the command knows

    def __str__(self) -> str:
        ranks = f"{self.ranks} rank{'s' if self.ranks > 1 else ''}"
        return ranks if self.batch is None else f"{ranks}, {self.batch:,} samples a step"


def template(command: Sequence[str]) -> list[str]:
    """The command with a place for its ranks. Raises UsageError: nobody can tell where that is."""
    words = list(command)
    if any(RANKS in word for word in words):
        return words
    for at, word in enumerate(words):
        option, equals, _ = word.partition("=")
        if option in _OPTIONS and equals:
            return [*words[:at], f"{option}={RANKS}", *words[at + 1 :]]
        if option in _OPTIONS and at + 1 < len(words):
            return [*words[: at + 1], RANKS, *words[at + 2 :]]
    if _PYTHON.fullmatch(words[0]) and len(words) > 1 and (words[1] == "-m" or words[1].endswith(".py")):
        return [*_TORCHRUN, *words[1:]]
    if words[0].endswith(".py"):
        return [*_TORCHRUN, *words]
    raise UsageError(
        "the command does not say where it takes the number of ranks",
        f"none of its words holds {RANKS}",
        f"Write e.g. torchrun --nproc-per-node={RANKS} train.py --batch {BATCH}",
    )


def sizes(command: Sequence[str], ranks: Sequence[int], batch: int | None, modes: Sequence[str]) -> list[Size]:
    """The smallest first, each once. Raises UsageError: the command does not take its batch."""
    takes_batch = any(BATCH in word or BATCH_PER_RANK in word for word in command)
    if takes_batch and batch is None:
        raise UsageError(f"{BATCH} has no value", "nobody said how many samples a step has", "Say it with --batch")
    if batch is not None and not takes_batch:
        raise UsageError(
            "--batch cannot be used", f"no word of the command holds {BATCH}", "Write it where the batch is set"
        )
    if batch is None:
        return [Size(n, None) for n in sorted(set(ranks))]
    first = min(ranks)
    return sorted({Size(n, batch * n // first if mode == "weak" else batch) for n in ranks for mode in modes})


def command_at(command: Sequence[str], size: Size) -> list[str]:
    """The command for that size."""
    numbers = {RANKS: size.ranks, BATCH: size.batch, BATCH_PER_RANK: (size.batch or 0) // size.ranks}
    words = list(command)
    for place, number in numbers.items():
        words = [word.replace(place, str(number)) for word in words]
    return words
