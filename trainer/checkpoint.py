"""Plain checkpoints: a folder for each save, with a file of each rank.

A run can load them only with the same number of ranks and the same placements.

A checkpoint whose weights are not finite is neither saved nor loaded, because a run that resumes from it always fails.
The loss of a step may be finite while its update is not.

Training waits while files are written. `trainer/scale/checkpoint/` saves while training continues, and loads with other
numbers of ranks and other kinds of sharding.
"""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from pickle import UnpicklingError
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from trainer.errors import CheckpointError
from trainer.faults import same_error_on_all_ranks
from trainer.quality import RunningQuality
from trainer.train import Trainer
from trainer.world import World

NOT_FINITE = "has values that are NaN or infinite"
DIVERGED = "Older checkpoints are complete. Check the data, or resume with a lower optimizer.dense_learning_rate"


def tensors_of(trainer: Trainer, running: RunningQuality) -> dict[str, Tensor]:
    """Return everything that a step changes on this rank, by name; a load writes into it."""
    tensors = {"dense": trainer.flat.parameter.data}
    tensors |= {f"dense.{name}": tensor for name, tensor in trainer.optimizer.state().items()}
    tensors |= {f"quality.{name}": tensor for name, tensor in running.state().items()}
    sharded = [(shard.table, weight, state) for shard, weight, state in trainer.tables.weights_and_states()]
    for part, (table, weight, state) in enumerate([*sharded, *trainer.replicated.weights_and_states()]):
        tensors |= {f"table.{table}.{part}.weight": weight, f"table.{table}.{part}.state": state}
    return tensors


def not_finite(tensors: Iterable[tuple[str, Tensor]]) -> str:
    """Return the name of the first tensor with a value that is NaN or infinite; empty if there is none.

    The sums of the quality are left out: they keep the NaN of an earlier loss, and no step depends on them.
    """
    for name, tensor in tensors:
        if not name.startswith("quality.") and tensor.numel():
            smallest, largest = tensor.aminmax()  # NaN if any value is, without a copy of the tensor
            if not (smallest.isfinite() & largest.isfinite()):
                return name
    return ""


class PlainCheckpoints:
    """The checkpoints of a run, in a folder that all ranks share. No checkpoint is deleted.

    All ranks make the same calls in the same order.
    """

    has_failed = False  # a save is complete when `save` returns

    def __init__(self, folder: Path, every: int, tensors: Mapping[str, Tensor], world: World) -> None:
        """`every` is the number of steps between two checkpoints. `tensors` is the result of `tensors_of`."""
        self._folder = folder
        self._every = every
        self._tensors = tensors
        self._world = world
        self._newest = 0  # the step of the last save or load

    def is_due(self, step: int) -> bool:
        """Return True if a checkpoint is due after this many steps."""
        return step % self._every == 0

    def save(self, step: int, numbers: Mapping[str, float]) -> None:
        """Save the tensors after this many steps, with numbers of the run.

        Ranks write into a folder with the suffix `.partial`. It gets its final name when it is complete.
        """
        if step == self._newest:
            return  # the last step of the run was due
        partial, complete = self._folder / f"step-{step:08d}.partial", self._folder / f"step-{step:08d}"
        content = {"step": step, "numbers": dict(numbers), "tensors": self._tensors}
        failure, rank = f"step {step} was not saved in {self._folder}", self._world.rank
        with _errors_on_all_ranks(failure):
            if name := not_finite(self._tensors.items()):
                raise CheckpointError(failure, f"{name} of rank {rank} {NOT_FINITE}", DIVERGED)
            partial.mkdir(parents=True, exist_ok=True)
            torch.save(content, partial / f"rank-{rank}.pt")
        with _errors_on_all_ranks(failure):
            if rank == 0:
                partial.rename(complete)
        self._newest = step

    def wait(self) -> None:
        """Return at once: no save is in progress."""

    def load(self) -> tuple[int, dict[str, float]]:
        """Load the newest finite checkpoint into the tensors. Return its step and numbers, or 0 and no numbers."""
        complete = (path for path in self._folder.glob("step-*") if not path.suffix)
        paths = sorted(complete, key=lambda path: int(path.name.removeprefix("step-")))
        for path in reversed(paths):
            content = self._content(path)
            names: list[str] = [""] * self._world.size
            dist.all_gather_object(names, not_finite(content["tensors"].items()))
            if any(names):
                self._set_aside(path, next(name for name in names if name))
                continue
            for name, tensor in self._tensors.items():
                tensor.copy_(content["tensors"][name])
            self._newest = content["step"]
            return content["step"], content["numbers"]
        if paths:
            raise CheckpointError(f"cannot load {self._folder}", "no checkpoint in it is finite", "Use another folder")
        return 0, {}

    def _content(self, path: Path) -> dict[str, Any]:
        """Read this rank's file of a checkpoint. Raises CheckpointError on all ranks if a rank cannot use its file."""
        with _errors_on_all_ranks(f"cannot load {path}"):
            content: dict[str, Any] = torch.load(path / f"rank-{self._world.rank}.pt", weights_only=True)
            for name, tensor in self._tensors.items():
                if content["tensors"][name].shape != tensor.shape:
                    raise RuntimeError(f"{name} has another shape in it")
        return content

    def _set_aside(self, path: Path, name: str) -> None:
        """Rename a checkpoint that is not finite: this run will save its step again."""
        with _errors_on_all_ranks(f"cannot rename {path}"):
            if self._world.rank == 0:
                path.rename(path.with_suffix(".not-finite"))
        self._world.warn(f"skipped {path}, because {name} {NOT_FINITE} in it; it is now {path.name}.not-finite")


@contextmanager
def _errors_on_all_ranks(failure: str) -> Iterator[None]:
    """Raise an error of one rank on all ranks, as CheckpointError."""
    with same_error_on_all_ranks():
        try:
            yield
        except (OSError, KeyError, RuntimeError, EOFError, UnpicklingError) as error:  # the last two: a damaged file
            cause = getattr(error, "strerror", None) or " ".join(str(error).split())[:200] or type(error).__name__
            next_step = "Start as many ranks as saved it with the same tables, or use another folder"
            raise CheckpointError(failure, cause, next_step) from error
