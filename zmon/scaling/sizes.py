"""Which sizes of a job are run, and with which command.

Pure. A command says where it takes its size: {ranks} is the number of ranks, {batch} the samples of a step of all of
them. Weak scaling: as many samples a rank at every size. Strong: as many in all.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass

from zmon.errors import UsageError

RANKS, BATCH = "{ranks}", "{batch}"
BUNDLED_BATCH = 512  # of the bundled trainer's demo, at the smallest size
BUNDLED = (
    sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={RANKS}",
    "-m", "trainer", "--preset", "demo", "--set", f"train.global_batch={BATCH}",
)  # fmt: skip


@dataclass(frozen=True, order=True)
class Size:
    """Of one run."""

    ranks: int
    batch: int | None  # samples of a step of all ranks; None: the command knows

    def __str__(self) -> str:
        ranks = f"{self.ranks} rank{'s' if self.ranks > 1 else ''}"
        return ranks if self.batch is None else f"{ranks}, {self.batch:,} samples a step"


def sizes(command: Sequence[str], ranks: Sequence[int], batch: int | None, modes: Sequence[str]) -> list[Size]:
    """The smallest first, each once. Raises UsageError: the command does not take its size."""
    if not any(RANKS in word for word in command):
        raise UsageError(
            "the command does not say where it takes the number of ranks",
            f"none of its words holds {RANKS}",
            f"Write e.g. torchrun --nproc-per-node={RANKS} train.py --batch {BATCH}",
        )
    takes_batch = any(BATCH in word for word in command)
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
    return [word.replace(RANKS, str(size.ranks)).replace(BATCH, str(size.batch)) for word in command]
