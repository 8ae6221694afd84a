"""The sizes at which a job is run, and the command for each size.

Pure. In a command, {ranks} stands for the number of ranks, {batch} for the global batch size and {batch_per_rank} for
the batch size per rank. In a command without {ranks}, `template` replaces the value of torchrun's --nproc-per-node, or
puts torchrun before a Python script. Weak scaling keeps the batch size per rank; strong scaling keeps the global batch
size.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass

from zmon.errors import UsageError

RANKS, BATCH, BATCH_PER_RANK = "{ranks}", "{batch}", "{batch_per_rank}"
BUNDLED_BATCH = 512  # global batch size of the bundled trainer at the smallest size
_TORCHRUN = (sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={RANKS}")
BUNDLED = (*_TORCHRUN, "-m", "trainer", "--preset", "demo", "--set", f"train.global_batch={BATCH}")
_OPTIONS = ("--nproc-per-node", "--nproc_per_node")
_PYTHON = re.compile(r"(?:.*/)?python[0-9.]*")


@dataclass(frozen=True, order=True)
class Size:
    """The size of one run."""

    ranks: int
    batch: int | None  # global batch size; None: the command sets it

    def __str__(self) -> str:
        ranks = f"{self.ranks} rank{'s' if self.ranks > 1 else ''}"
        return ranks if self.batch is None else f"{ranks}, {self.batch:,} samples per step"


def template(command: Sequence[str]) -> list[str]:
    """Return the command with {ranks} in it. Raises UsageError if no word of the command can be replaced."""
    words = list(command)
    if any(RANKS in word for word in words):
        return words
    for i, word in enumerate(words):
        option, equals, _ = word.partition("=")
        if option in _OPTIONS and equals:
            return [*words[:i], f"{option}={RANKS}", *words[i + 1 :]]
        if option in _OPTIONS and i + 1 < len(words):
            return [*words[: i + 1], RANKS, *words[i + 2 :]]
    if _PYTHON.fullmatch(words[0]) and len(words) > 1 and (words[1] == "-m" or words[1].endswith(".py")):
        return [*_TORCHRUN, *words[1:]]
    if words[0].endswith(".py"):
        return [*_TORCHRUN, *words]
    raise UsageError(
        "cannot set the number of ranks in the command",
        f"none of its words has {RANKS}",
        f"Write for example torchrun --nproc-per-node={RANKS} train.py --batch {BATCH}",
    )


def sizes(command: Sequence[str], ranks: Sequence[int], batch: int | None, modes: Sequence[str]) -> list[Size]:
    """Return the sizes to run, the smallest first.

    Raises UsageError if --batch and the command do not fit together.
    """
    takes_batch = any(BATCH in word or BATCH_PER_RANK in word for word in command)
    if takes_batch and batch is None:
        raise UsageError(f"{BATCH} has no value", "the global batch size is not set", "Set it with --batch")
    if batch is not None and not takes_batch:
        raise UsageError(
            "--batch cannot be used", f"no word of the command has {BATCH}", "Write it where the batch size is set"
        )
    if batch is None:
        return [Size(n, None) for n in sorted(set(ranks))]
    first = min(ranks)
    all_sizes = sorted({Size(n, batch * n // first if mode == "weak" else batch) for n in ranks for mode in modes})
    if any(BATCH_PER_RANK in word for word in command):
        for size in all_sizes:
            if size.batch is not None and size.batch % size.ranks:  # the ranks would process another batch
                raise UsageError(
                    f"{size.batch} samples cannot be divided among {size.ranks} ranks",
                    f"the command has {BATCH_PER_RANK}",
                    "Choose another --batch",
                )
    return all_sizes


def command_at(command: Sequence[str], size: Size) -> list[str]:
    """Return the command for this size."""
    numbers = {RANKS: size.ranks, BATCH: size.batch, BATCH_PER_RANK: (size.batch or 0) // size.ranks}
    words = list(command)
    for placeholder, number in numbers.items():
        words = [word.replace(placeholder, str(number)) for word in words]
    return words
