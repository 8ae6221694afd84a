"""Saves of checkpoints while training goes on, and loads.

A save interrupts training only to copy the tensors that this rank writes; a thread then writes the copies. The ranks
communicate through the store of the job (coordinator.py). All ranks must share one file system.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from hashlib import blake2b
from pathlib import Path
from threading import Thread
from types import MappingProxyType
from typing import TypeVar
from uuid import uuid4

import msgspec
import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch.distributed.checkpoint.planner import SavePlan

from trainer.checkpoint import DIVERGED, NOT_FINITE, not_finite
from trainer.errors import CheckpointError, require
from trainer.faults import raised_on_all_ranks
from trainer.scale.checkpoint import folder
from trainer.scale.checkpoint.coordinator import Coordinator
from trainer.scale.checkpoint.messages import (
    PlannedChunk,
    WrittenChunk,
    planned_chunks,
    save_plan,
    write_results,
    written_chunks,
)
from trainer.scale.checkpoint.reader import Streams, read_table
from trainer.scale.checkpoint.rows import Mismatch, RowLoadPlanner, RowSavePlanner, State, chunks
from trainer.scale.disk import sync_file
from trainer.scale.encryption.file import DATA_SET_BYTES
from trainer.scale.encryption.files import files_under

_CHOOSE = "Use the configuration of the save, or choose another checkpoint with --resume auto, STEP or none"
NUMBERS = "numbers.json"  # in a checkpoint's folder, beside torch's own files

A = TypeVar("A")
B = TypeVar("B")


@dataclass(frozen=True)
class CheckpointConfig:
    folder: str = ""  # a folder that all ranks share; empty: no checkpoints
    every: int = 1000  # steps between two checkpoints
    keep: int = 3  # number of newest checkpoints to keep
    asynchronous: bool = True  # train while files are written; takes memory for a copy of what each rank writes
    resume: str = "auto"  # auto: from the newest finite checkpoint, if any; a step: from that one; none: from scratch
    key_file: str = ""  # to encrypt them: a file of mode 0600, env:VARIABLE or command:COMMAND
    timeout_seconds: float = 600.0  # how long the fastest rank waits for the slowest one in a save

    def __post_init__(self) -> None:
        require(self.every > 0, "checkpoint.every", self.every, "1 or more")
        require(self.keep > 0, "checkpoint.keep", self.keep, "1 or more")
        resume = self.resume in ("auto", "none") or self.resume.isdecimal()
        require(resume, "checkpoint.resume", self.resume, "auto, none or the number of a step")
        require(self.timeout_seconds > 0, "checkpoint.timeout_seconds", self.timeout_seconds, "above 0")


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
        self.coordinator = Coordinator(_own_store(), dist.get_rank(), dist.get_world_size(), config.timeout_seconds)
        self._planner = RowSavePlanner(chunks(state))
        self._plan: SavePlan | None = None  # what this rank writes; planned at the first save
        self._newest: int | None = None  # the step of the last save or load
        self._thread: Thread | None = None
        self._error: CheckpointError | None = None
        with raised_on_all_ranks():
            files_under(config.key_file)  # a key that is missing is an error now, not at the first save
        self._random = _random_bytes() if config.key_file else b""
        num_deleted = self._agree("cannot use", lambda: None, lambda _: folder.tidy(self.folder))
        if num_deleted:
            warn(
                f"{self.folder}: deleted the remains of {num_deleted} interrupted save{'s' if num_deleted > 1 else ''}"
            )

    def due(self, step: int) -> bool:
        """Return True if a checkpoint is due after this many steps."""
        return step % self.config.every == 0

    @property
    def failed(self) -> bool:
        """True if this rank knows that the save in the background failed. The next call will raise."""
        return self._error is not None

    def latest(self) -> int | None:
        """Return the step of the newest complete checkpoint that rank 0 sees, or None."""
        return next(reversed(self._steps()), None)

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
        renamed = self._agree("cannot tidy", lambda: None, lambda _: folder.set_aside(self.folder, after))
        if renamed:
            self.warn(
                f"{self.folder}: renamed later checkpoints to {', '.join(renamed)}, because this run starts before them"
            )
        return step or 0, numbers

    def load(self, step: int) -> dict[str, float]:
        """Load the checkpoint of a step, whatever its sharding was, and return its numbers."""
        numbers, fault = self._try(step)
        if fault:
            raise CheckpointError(f"cannot load step {step} from {self.folder}", fault, _CHOOSE)
        return numbers

    def _load_newest(self) -> tuple[int | None, dict[str, float]]:
        """Load the newest checkpoint that is finite. Return its step and numbers; no step if there is no checkpoint."""
        steps = self._steps()
        for step in reversed(steps):
            numbers, fault = self._try(step)
            if not fault:
                return step, numbers
            self.warn(f"{self.folder}: skipped step {step}, because {fault}")
        if steps:
            raise CheckpointError(f"cannot resume from {self.folder}", "no checkpoint in it is finite", _CHOOSE)
        return None, {}

    def _steps(self) -> list[int]:
        """Return the steps of all complete checkpoints that rank 0 sees, oldest first."""
        return self._agree("cannot list", lambda: None, lambda _: folder.steps(self.folder))

    def _try(self, step: int) -> tuple[dict[str, float], str]:
        """Load the checkpoint of a step. Return its numbers, and which tensor is not finite; empty if all are."""
        numbers, fault = self.coordinator.agree(
            f"cannot load step {step} from {self.folder}",
            _CHOOSE,
            partial(self._load, step),
            lambda loaded: (loaded[0][0], next((fault for _, fault in loaded if fault), "")),
        )
        if not fault:
            self._newest = step
        return numbers, fault

    def _load(self, step: int) -> tuple[dict[str, float], str]:
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
        if self._plan is None:
            self._plan = self._create_plan()
        self._newest = step
        if not self.config.asynchronous:
            self._write(step, {**numbers, **self._constants})
            return
        self._planner.copy(self._plan)
        # A daemon thread, so that a rank that ends by an exception does not wait for ranks that may have exited.
        self._thread = Thread(
            target=self._write_in_background,
            args=(step, {**numbers, **self._constants}),
            name="checkpoint",
            daemon=True,
        )
        self._thread.start()

    def wait(self) -> None:
        """Wait for the save in the background to end; to be called after the last save."""
        if self._thread is not None:
            self._thread.join()
            self._thread = None
        if self._error is not None:
            raise self._error

    def _create_plan(self) -> SavePlan:
        """Agree on the tensors that each rank writes. The plan stays valid, because shards do not move."""
        planner, rank = self._planner, self.coordinator.rank
        planner.set_up_planner({}, is_coordinator=rank == 0)

        def plan_all(plans: Sequence[object]) -> list[list[PlannedChunk]]:
            local_plans = [save_plan(msgspec.convert(plan, list[PlannedChunk])) for plan in plans]
            return [planned_chunks(plan) for plan in planner.create_global_plan(local_plans)[0]]

        decided: object = self._agree(
            "cannot plan a save in", lambda: planned_chunks(planner.create_local_plan()), plan_all
        )
        plans = [save_plan(plan) for plan in msgspec.convert(decided, list[list[PlannedChunk]])]
        return dcp.FileSystemWriter(self.folder).prepare_global_plan(plans)[rank]

    def _write_in_background(self, step: int, numbers: dict[str, float]) -> None:
        try:
            self._write(step, numbers)
        except CheckpointError as error:
            self._error = error

    def _write(self, step: int, numbers: dict[str, float]) -> None:
        path, plan = folder.partial_path(self.folder, step), self._plan
        writer = dcp.FileSystemWriter(path, per_thread_copy_ahead=0)  # above 0 uses a stream of GPU 0 on every rank
        files = files_under(self.config.key_file, _data_set(self._random, step))
        writer.fs = Streams(files)
        assert plan is not None

        def write_local() -> list[WrittenChunk]:
            return written_chunks(writer.write_data(writer.prepare_local_plan(plan), self._planner).wait())

        def check() -> None:
            name = not_finite((item.index.fqn, self._planner.lookup_object(item.index)) for item in plan.items)
            if name:
                raise ValueError(f"{name} {NOT_FINITE}")

        def finish(written: Sequence[object]) -> None:
            results = [write_results(msgspec.convert(chunks, list[WrittenChunk])) for chunks in written]
            with files.create(path / NUMBERS) as file:
                file.write(json.dumps(numbers).encode())
                sync_file(file)
            writer.finish(self._planner.metadata, results)
            folder.complete(self.folder, step)

        self.coordinator.agree(f"step {step} was not saved in {self.folder}", DIVERGED, check, lambda _: None)
        try:
            self._agree(f"step {step} was not saved in", write_local, finish)
        except CheckpointError:
            if self.coordinator.rank == 0:
                folder.discard(self.folder, step)
            raise
        if self.coordinator.rank == 0:
            try:
                folder.prune(self.folder, self.config.keep)
            except OSError as error:
                self.warn(f"cannot delete old checkpoints: {error}")

    def _agree(self, failure: str, local: Callable[[], A], combine: Callable[[Sequence[A]], B]) -> B:
        next_step = (
            "Older checkpoints are complete. Free some space, or choose another folder with --set checkpoint.folder=…"
        )
        return self.coordinator.agree(f"{failure} {self.folder}", next_step, local, combine)


def _own_store() -> dist.Store:
    """Return a part of the job's store with a new prefix.

    torchrun keeps the store when it restarts the ranks, with the keys of the previous ranks.
    """
    assert dist.group.WORLD is not None
    store = dist.group.WORLD.get_group_store().clone()  # waiting for a key blocks all users of a connection
    return dist.PrefixStore(_random_bytes().hex(), store)


def _data_set(random: bytes, step: int) -> bytes:
    """Return an id for the checkpoint of a step, so that no file of another step is taken for one of its own."""
    return blake2b(random + step.to_bytes(8, "little"), digest_size=DATA_SET_BYTES).digest()


def _random_bytes() -> bytes:
    """Return 16 random bytes, the same on all ranks."""
    device = "cpu" if dist.get_backend() == "gloo" else "cuda"
    random = torch.tensor(list(uuid4().bytes), dtype=torch.uint8, device=device)
    dist.broadcast(random, 0)
    return bytes(random.tolist())
