"""Saves what is trained while training goes on, and brings it back.

A save holds training up for as long as copying what this rank writes takes; a thread then writes the copies. All that
ranks tell each other goes through the store of the job (meeting.py). All see one file system.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from threading import Thread
from typing import TypeVar
from uuid import uuid4

import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch.distributed.checkpoint.planner import SavePlan
from torch.distributed.checkpoint.storage import WriteResult

from trainer.checkpoint import folder
from trainer.checkpoint.meeting import Meeting
from trainer.checkpoint.rows import Fetching, Keeping, Refused, State, chunks
from trainer.errors import CheckpointError, require

NUMBERS = "numbers.json"  # in a checkpoint's folder, beside torch's own files

A = TypeVar("A")
B = TypeVar("B")


@dataclass(frozen=True)
class CheckpointConfig:
    folder: str = ""  # that all ranks see; empty: nothing is kept
    every: int = 1000  # steps from one to the next
    keep: int = 3  # the newest, so many
    asynchronous: bool = True  # train while files are written, at the price of a copy of what a rank writes
    resume: str = "auto"  # auto: from the newest if there is one; a step: from that one; none: begin anew
    timeout_seconds: float = 600.0  # how long the fastest rank's files wait for the slowest one's

    def __post_init__(self) -> None:
        require(self.every > 0, "checkpoint.every", self.every, "1 or more")
        require(self.keep > 0, "checkpoint.keep", self.keep, "1 or more")
        resume = self.resume in ("auto", "none") or self.resume.isdecimal()
        require(resume, "checkpoint.resume", self.resume, "auto, none or the number of a step")
        require(self.timeout_seconds > 0, "checkpoint.timeout_seconds", self.timeout_seconds, "above 0")


class Checkpoints:
    """Those of one run. The group must have been joined; all ranks make the same calls in the same order, in the
    thread that trains. Each raises CheckpointError on all ranks where it does on one.

    `state` are the tensors themselves: training changes them in place, and a load does. `warn` is for rank 0 to speak.
    """

    def __init__(self, config: CheckpointConfig, state: State, warn: Callable[[str], None]) -> None:
        self.config, self.state, self.warn = config, state, warn
        self.folder = Path(config.folder)
        self.meeting = Meeting(_own_store(), dist.get_rank(), dist.get_world_size(), config.timeout_seconds)
        self._planner = Keeping(chunks(state))
        self._plan: SavePlan | None = None  # what this rank writes; made at the first save
        self._newest: int | None = None  # step that was saved or loaded here
        self._thread: Thread | None = None
        self._error: CheckpointError | None = None
        left = self._agree("cannot use", lambda: None, lambda _: folder.tidy(self.folder))
        if left:
            warn(f"{self.folder}: deleted what was left of {left} save{'s' if left > 1 else ''} that came to no end")

    def due(self, step: int) -> bool:
        """Whether so many steps done are a time to save."""
        return step % self.config.every == 0

    @property
    def failed(self) -> bool:
        """Whether the save under way has failed, on this rank by what it knows: the next call will raise."""
        return self._error is not None

    def latest(self) -> int | None:
        """The newest step that is whole, as rank 0 sees it; None: there is none."""
        there = self._agree("cannot look into", lambda: None, lambda _: folder.steps(self.folder))
        return there[-1] if there else None

    def resume(self) -> tuple[int, dict[str, float]]:
        """Bring back what the configuration says: the steps done and the numbers kept, 0 and none to begin anew.

        What lies there of later steps is set aside under another name: this run will come by these steps itself.
        """
        resume = self.config.resume
        step = self.latest() if resume == "auto" else None if resume == "none" else int(resume)
        numbers = {} if step is None else self.load(step)
        after = -1 if step is None else step
        aside = self._agree("cannot tidy", lambda: None, lambda _: folder.set_aside(self.folder, after))
        if aside:
            self.warn(f"{self.folder}: set aside {', '.join(aside)}, for this run begins before them")
        return step or 0, numbers

    def load(self, step: int) -> dict[str, float]:
        """Bring back a step, whoever held what when it was saved; returns the numbers."""
        numbers = self.meeting.agree(
            f"cannot load step {step} from {self.folder}",
            "Train what was saved, or choose another with --resume auto, STEP or none",
            partial(self._load, step),
            lambda numbers: numbers[0],
        )
        self._newest = step
        return numbers

    def _load(self, step: int) -> dict[str, float]:
        path = folder.at(self.folder, step)
        if not path.is_dir():
            there = ", ".join(map(str, folder.steps(self.folder))) or "none"
            raise Refused(f"it is not there; there are {there}")
        reader, planner = dcp.FileSystemReader(path), Fetching(self.state)
        metadata = reader.read_metadata()
        planner.set_up_planner({}, metadata)
        reader.set_up_storage_reader(metadata, is_coordinator=self.meeting.rank == 0)
        reader.read_data(planner.create_local_plan(), planner).wait()
        numbers: dict[str, float] = json.loads((path / NUMBERS).read_text())
        return numbers

    def save(self, step: int, numbers: Mapping[str, float]) -> None:
        """Keep what is trained as it is now, after so many steps, and numbers that are equal on all ranks.

        Waits for the save before it. One that fails in the background raises at the next call of this or `wait`,
        which all ranks make at the same place; no rank is left behind in a collective.
        """
        self.wait()
        if step == self._newest:
            return  # at the end of a run whose last step was due
        if self._plan is None:
            self._plan = self._planned()
        self._newest = step
        if not self.config.asynchronous:
            self._write(step, dict(numbers))
            return
        self._planner.copy(self._plan)
        # A daemon: where this rank ends by an exception, nobody waits for ranks that may be gone.
        self._thread = Thread(target=self._write_aside, args=(step, dict(numbers)), name="checkpoint", daemon=True)
        self._thread.start()

    def wait(self) -> None:
        """Until the save under way, if there is one, has come to its end. To be called after the last one."""
        if self._thread is not None:
            self._thread.join()
            self._thread = None
        if self._error is not None:
            raise self._error

    def _planned(self) -> SavePlan:
        """Who writes what of that which several ranks hold; it stays so, for shards do not move while a run lasts."""
        planner, rank = self._planner, self.meeting.rank
        planner.set_up_planner({}, is_coordinator=rank == 0)
        plans = self._agree(
            "cannot plan for", planner.create_local_plan, lambda plans: planner.create_global_plan(list(plans))[0]
        )
        return dcp.FileSystemWriter(self.folder).prepare_global_plan(plans)[rank]

    def _write_aside(self, step: int, numbers: dict[str, float]) -> None:
        try:
            self._write(step, numbers)
        except CheckpointError as error:
            self._error = error

    def _write(self, step: int, numbers: dict[str, float]) -> None:
        path, plan = folder.partial(self.folder, step), self._plan
        writer = dcp.FileSystemWriter(path, per_thread_copy_ahead=0)  # above 0: a stream of GPU 0, whatever the rank's
        assert plan is not None

        def here() -> list[WriteResult]:
            written: list[WriteResult] = writer.write_data(writer.prepare_local_plan(plan), self._planner).wait()
            return written

        def first(written: Sequence[list[WriteResult]]) -> None:
            folder.write(path / NUMBERS, json.dumps(numbers))
            writer.finish(self._planner.metadata, list(written))
            folder.complete(self.folder, step)

        try:
            self._agree(f"step {step} was not saved in", here, first)
        except CheckpointError:
            if self.meeting.rank == 0:
                folder.discard(self.folder, step)
            raise
        if self.meeting.rank == 0:
            try:
                folder.prune(self.folder, self.config.keep)
            except OSError as error:
                self.warn(f"cannot delete old checkpoints: {error}")

    def _agree(self, what: str, here: Callable[[], A], first: Callable[[Sequence[A]], B]) -> B:
        next_step = "Older checkpoints are whole. Make room, or choose another folder with --set checkpoint.folder=…"
        return self.meeting.agree(f"{what} {self.folder}", next_step, here, first)


def _own_store() -> dist.Store:
    """A place in the job's store that nobody has been at: torchrun keeps the store when it starts the ranks again, and
    what those before them said is still there."""
    name = [uuid4().hex]
    dist.broadcast_object_list(name)
    assert dist.group.WORLD is not None
    store = dist.group.WORLD.get_group_store().clone()  # who waits for a key holds up all that share a connection
    return dist.PrefixStore(name[0], store)
