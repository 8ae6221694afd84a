"""Plain checkpoints: a folder for each save, with a file of each rank. They fit the same ranks and placements only.

Training waits while files are written. `trainer/scale/checkpoint/` saves while it continues, and loads with other ranks
and kinds of sharding.
"""

from collections.abc import Iterable, Mapping
from pathlib import Path

import torch
from torch import Tensor

from trainer.errors import CheckpointError
from trainer.faults import raised_on_all_ranks
from trainer.quality import RunningQuality
from trainer.train import Trainer
from trainer.world import World


def tensors_of(trainer: Trainer, running: RunningQuality) -> dict[str, Tensor]:
    """Return everything that a step changes on this rank, by name; a load writes into it."""
    tensors = {"dense": trainer.flat.parameter.data}
    tensors |= {f"dense.{name}": tensor for name, tensor in trainer.optimizer.state().items()}
    tensors |= {f"quality.{name}": tensor for name, tensor in running.state().items()}
    sharded = [(shard.table, weight, state) for shard, weight, state in trainer.tables.parts()]
    for number, (table, weight, state) in enumerate([*sharded, *trainer.replicated.parts()]):
        tensors |= {f"table.{table}.{number}.weight": weight, f"table.{table}.{number}.state": state}
    return tensors


def check_finite(tensors: Iterable[tuple[str, Tensor]]) -> None:
    """Raise ValueError if a weight or a moment is not finite: a run that resumed from it would never recover.

    The loss of a step may be finite although its update is not. The quality of a run may be unknown, thus no number.
    """
    for name, tensor in tensors:
        if not name.startswith("quality.") and tensor.is_floating_point() and not tensor.isfinite().all():
            raise ValueError(f"{name} has values that are not finite")


class PlainCheckpoints:
    """The checkpoints of a run, in a folder that all ranks share. All ranks make the same calls in the same order."""

    failed = False  # a save is complete when `save` returns

    def __init__(self, folder: Path, every: int, tensors: Mapping[str, Tensor], world: World) -> None:
        """`every` is the number of steps between two checkpoints. `tensors` are those of `tensors_of`."""
        self._folder, self._every, self._tensors, self._rank = folder, every, tensors, world.rank
        self._newest = 0  # the step of the last save or load

    def due(self, step: int) -> bool:
        """Return True if a checkpoint is due after this many steps."""
        return step % self._every == 0

    def save(self, step: int, numbers: Mapping[str, float]) -> None:
        """Save the tensors after this many steps, with numbers of the run. A folder with its final name is complete."""
        if step == self._newest:
            return  # the last step of the run was due
        partial, complete = self._folder / f"step-{step:08d}.partial", self._folder / f"step-{step:08d}"
        content = {"step": step, "numbers": dict(numbers), "tensors": self._tensors}
        with raised_on_all_ranks():
            try:
                check_finite(self._tensors.items())
                partial.mkdir(parents=True, exist_ok=True)
                torch.save(content, partial / f"rank-{self._rank}.pt")
            except (OSError, ValueError) as error:
                raise _error(f"step {step} was not saved in {self._folder}", error) from error
        with raised_on_all_ranks():
            try:
                if self._rank == 0:
                    partial.rename(complete)
            except OSError as error:
                raise _error(f"step {step} was not saved in {self._folder}", error) from error
        self._newest = step

    def wait(self) -> None:
        """Return at once: no save is in progress."""

    def load(self) -> tuple[int, dict[str, float]]:
        """Load the newest checkpoint into the tensors. Return its step and numbers, or 0 and no numbers."""
        with raised_on_all_ranks():
            saved = sorted(path for path in self._folder.glob("step-*") if path.suffix != ".partial")
            if not saved:
                return 0, {}
            try:
                content = torch.load(saved[-1] / f"rank-{self._rank}.pt", weights_only=True)
                for name, tensor in self._tensors.items():
                    tensor.copy_(content["tensors"][name])
            except (OSError, KeyError, RuntimeError) as error:
                raise _error(f"cannot load {saved[-1]}", error) from error
        self._newest = content["step"]
        return content["step"], content["numbers"]


def _error(failure: str, error: Exception) -> CheckpointError:
    cause = getattr(error, "strerror", None) or " ".join(str(error).split())[:200]
    next_step = "Start as many ranks as saved it with the same tables, or use another folder"
    if isinstance(error, ValueError):
        next_step = "Resume from the checkpoint before it with a lower learning rate"
    return CheckpointError(failure, cause, next_step)
