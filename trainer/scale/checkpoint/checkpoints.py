"""Saves of checkpoints while training goes on, and loads.

A save interrupts training only to copy the tensors that this rank writes; a thread then writes the copies (writer.py).
The ranks communicate through the store of the job (coordinator.py). All ranks must share one file system.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from threading import Thread
from types import MappingProxyType
from typing import TypeVar

import torch.distributed as dist
import torch.distributed.checkpoint as dcp

from trainer.checkpoint import NOT_FINITE, not_finite
from trainer.errors import CheckpointError, require
from trainer.faults import same_error_on_all_ranks
from trainer.scale.checkpoint import folder
from trainer.scale.checkpoint.coordinator import Coordinator, new_store
from trainer.scale.checkpoint.reader import Streams, read_table
from trainer.scale.checkpoint.rows import Mismatch, RowLoadPlanner, State, chunks
from trainer.scale.checkpoint.writer import NUMBERS, Writer
from trainer.scale.encryption.files import files_under

MAX_TIMEOUT_SECONDS = 1e9  # the store of the job takes no infinite time
_NEXT_STEP = "Use the configuration of the save, or choose another checkpoint with --resume auto, STEP or none"

T = TypeVar("T")


@dataclass(frozen=True)
class CheckpointConfig:
    folder: str = ""  # a folder that all ranks share; empty: no checkpoints
    every: int = 1000  # steps between two checkpoints
    keep: int = 3  # number of newest checkpoints to keep
    asynchronous: bool = True  # train while files are written; takes memory for a copy of what each rank writes
    resume: str = "auto"  # auto: from the newest finite checkpoint, if any; a step: from that one; none: from scratch
    key_file: str = ""  # key that encrypts checkpoints: a file of mode 0600, env:VARIABLE or command:COMMAND
    timeout_seconds: float = 600.0  # seconds that the fastest rank waits for the slowest one in a save

    def __post_init__(self) -> None:
        require(self.every > 0, "checkpoint.every", self.every, "1 or more")
        require(self.keep > 0, "checkpoint.keep", self.keep, "1 or more")
        names_checkpoint = self.resume in ("auto", "none") or self.resume.isdecimal()
        require(names_checkpoint, "checkpoint.resume", self.resume, "auto, none or the number of a step")
        seconds, choices = self.timeout_seconds, f"above 0, and at most {MAX_TIMEOUT_SECONDS:g}"
        require(0 < seconds <= MAX_TIMEOUT_SECONDS, "checkpoint.timeout_seconds", seconds, choices)


class Checkpoints:
    """The checkpoints of one run.

    The process group must exist. All ranks make the same calls in the same order, in the training thread. If a call
    raises CheckpointError on one rank, it does so on all ranks. `state` has the tensors themselves, which training and
    loads change in place. `warn` prints a line on rank 0. `constants` are saved with the numbers of each save.
    """

    def __init__(
        self,
        config: CheckpointConfig,
        state: State,
        warn: Callable[[str], None],
        constants: Mapping[str, float] = MappingProxyType({}),
    ) -> None:
        self.config, self.state, self.warn, self._constants = config, state, warn, constants
        self.folder = Path(config.folder)
        self.coordinator = Coordinator(new_store(), dist.get_rank(), dist.get_world_size(), config.timeout_seconds)
        self._newest: int | None = None  # the step of the last save or load
        self._thread: Thread | None = None
        self._error: CheckpointError | None = None
        with same_error_on_all_ranks():
            files_under(config.key_file)  # a key that is missing is an error now, not at the first save
        self._writer = Writer(self.folder, config.key_file, state, self.coordinator)
        num_deleted = self._on_rank_0("cannot use", folder.tidy)
        if num_deleted:
            saves = "save" if num_deleted == 1 else "saves"
            warn(f"{self.folder}: deleted the remains of {num_deleted} interrupted {saves}")

    def is_due(self, step: int) -> bool:
        """Return True if a checkpoint is due after this many steps."""
        return step % self.config.every == 0

    @property
    def has_failed(self) -> bool:
        """True if this rank knows that the save in the background failed. The next call will raise."""
        return self._error is not None

    def resume(self) -> tuple[int, dict[str, float]]:
        """Load the checkpoint that the configuration names. Return its step and numbers, or 0 and no numbers.

        `auto` is the newest one that is finite. Checkpoints of later steps are renamed, since this run will save these
        steps itself.
        """
        resume = self.config.resume
        step: int | None = None
        numbers: dict[str, float] = {}
        if resume == "auto":
            step, numbers = self._load_newest()
        elif resume != "none":
            step = int(resume)
            numbers = self.load(step)
        after = -1 if step is None else step
        renamed = self._on_rank_0("cannot tidy", partial(folder.set_aside, after=after))
        if renamed:
            self.warn(
                f"{self.folder}: renamed later checkpoints to {', '.join(renamed)}, because this run starts before them"
            )
        return step or 0, numbers

    def load(self, step: int) -> dict[str, float]:
        """Load the checkpoint of a step, whatever its sharding was, and return its numbers."""
        numbers, fault = self._load_on_all_ranks(step)
        if fault:
            raise CheckpointError(f"cannot load step {step} from {self.folder}", fault, _NEXT_STEP)
        return numbers

    def _load_newest(self) -> tuple[int | None, dict[str, float]]:
        """Load the newest checkpoint that is finite. Return its step and numbers; no step if there is no checkpoint."""
        steps = self._on_rank_0("cannot list", folder.steps)
        for step in reversed(steps):
            numbers, fault = self._load_on_all_ranks(step)
            if not fault:
                return step, numbers
            self.warn(f"{self.folder}: skipped step {step}, because {fault}")
        if steps:
            raise CheckpointError(f"cannot resume from {self.folder}", "no checkpoint in it is finite", _NEXT_STEP)
        return None, {}

    def _load_on_all_ranks(self, step: int) -> tuple[dict[str, float], str]:
        """Load the checkpoint of a step. Return its numbers, and which tensor is not finite; empty if all are."""

        def combine(by_rank: Sequence[tuple[dict[str, float], str]]) -> tuple[dict[str, float], str]:
            numbers, _ = by_rank[0]  # the numbers are the same on all ranks
            return numbers, next((fault for _, fault in by_rank if fault), "")

        failure = f"cannot load step {step} from {self.folder}"
        numbers, fault = self.coordinator.agree(failure, _NEXT_STEP, partial(self._load_local, step), combine)
        if not fault:
            self._newest = step
        return numbers, fault

    def _load_local(self, step: int) -> tuple[dict[str, float], str]:
        """Load what this rank holds of a checkpoint. Return the same as `_load_on_all_ranks`."""
        path = folder.checkpoint_path(self.folder, step)
        if not path.is_dir():
            steps = ", ".join(map(str, folder.steps(self.folder))) or "none"
            raise Mismatch(f"it does not exist; the steps in the folder are {steps}")
        reader, planner = dcp.FileSystemReader(path), RowLoadPlanner(self.state)
        files = files_under(self.config.key_file)
        metadata = read_table(path, files)
        reader.fs = Streams(files)
        planner.set_up_planner({}, metadata)
        reader.set_up_storage_reader(metadata, is_coordinator=self.coordinator.rank == 0)
        reader.read_data(planner.create_local_plan(), planner).wait()
        with files.open(path / NUMBERS) as file:
            numbers: dict[str, float] = json.loads(file.read())
        name = not_finite((index.fqn, chunk.read()) for index, (chunk, _) in chunks(self.state).items())
        return numbers, f"{name} {NOT_FINITE}" if name else ""

    def save(self, step: int, numbers: Mapping[str, float]) -> None:
        """Save the state after this many steps, with numbers that are equal on all ranks.

        This waits for the previous save. If a save fails in the background, the next call of `save` or `wait` raises.
        All ranks make that call at the same point, so no rank is left waiting in a collective.
        """
        self.wait()
        if step == self._newest:
            return  # already saved: the last step of the run was due
        self._writer.plan()
        self._newest = step
        arguments = step, {**numbers, **self._constants}
        if not self.config.asynchronous:
            self._write(*arguments)
            return
        self._writer.copy()
        # A daemon thread, so that a rank that ends by an exception does not wait for ranks that may have exited.
        self._thread = Thread(target=self._write_in_background, args=arguments, name="checkpoint", daemon=True)
        self._thread.start()

    def wait(self) -> None:
        """Wait for the save in the background to end; to be called after the last save."""
        if self._thread is not None:
            self._thread.join()
            self._thread = None
        if self._error is not None:
            raise self._error

    def _write_in_background(self, step: int, numbers: dict[str, float]) -> None:
        try:
            self._write(step, numbers)
        except CheckpointError as error:
            self._error = error

    def _write(self, step: int, numbers: dict[str, float]) -> None:
        """Write a checkpoint, then delete old ones. Raises CheckpointError on all ranks."""
        self._writer.write(step, numbers)
        if self.coordinator.rank == 0:
            try:
                folder.prune(self.folder, self.config.keep)
            except OSError as error:
                self.warn(f"cannot delete old checkpoints: {error}")

    def _on_rank_0(self, failure: str, function: Callable[[Path], T]) -> T:
        """Call a function with the folder on rank 0, and return its result on all ranks."""
        failure = f"{failure} {self.folder}"
        return self.coordinator.agree(failure, folder.NEXT_STEP, lambda: None, lambda _: function(self.folder))
