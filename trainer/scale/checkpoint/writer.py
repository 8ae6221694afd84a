"""Writes a checkpoint. Each rank writes its tensors; rank 0 also writes what all ranks share. It runs in any thread."""

import json
from collections.abc import Sequence
from hashlib import blake2b
from pathlib import Path

import msgspec
import torch.distributed.checkpoint as dcp
from torch.distributed.checkpoint.planner import SavePlan

from trainer.checkpoint import DIVERGED, NOT_FINITE, not_finite
from trainer.errors import CheckpointError
from trainer.scale.checkpoint import folder, messages
from trainer.scale.checkpoint.coordinator import Coordinator, random_bytes
from trainer.scale.checkpoint.reader import Streams
from trainer.scale.checkpoint.rows import RowSavePlanner, State, chunks
from trainer.scale.disk import sync_file
from trainer.scale.encryption.file import DATA_SET_BYTES
from trainer.scale.encryption.files import files_under

NUMBERS = "numbers.json"  # in a checkpoint's folder, beside torch's own files


class Writer:
    """Writes the tensors of this rank. Call `plan`, then `copy` if training continues during the save, then `write`.

    All ranks must create it together and make the same calls. `path` is the folder of all checkpoints. `key_file` names
    the key of encrypted checkpoints, and is empty for plain ones.
    """

    def __init__(self, path: Path, key_file: str, state: State, coordinator: Coordinator) -> None:
        self._folder, self._key_file, self._coordinator = path, key_file, coordinator
        self._planner = RowSavePlanner(chunks(state))
        self._plan: SavePlan | None = None  # what this rank writes
        self._random = random_bytes() if key_file else b""

    def plan(self) -> None:
        """Agree on the tensors that each rank writes. The plan stays valid, because shards do not move."""
        if self._plan is not None:
            return
        planner, rank = self._planner, self._coordinator.rank
        planner.set_up_planner({}, is_coordinator=rank == 0)

        def plan_all(plans: Sequence[object]) -> list[list[messages.PlannedChunk]]:
            local_plans = [messages.save_plan(msgspec.convert(plan, list[messages.PlannedChunk])) for plan in plans]
            return [messages.planned_chunks(plan) for plan in planner.create_global_plan(local_plans)[0]]

        failure = f"cannot plan a save in {self._folder}"
        decided: object = self._coordinator.agree(
            failure, folder.NEXT_STEP, lambda: messages.planned_chunks(planner.create_local_plan()), plan_all
        )
        plans = [messages.save_plan(plan) for plan in msgspec.convert(decided, list[list[messages.PlannedChunk]])]
        self._plan = dcp.FileSystemWriter(self._folder).prepare_global_plan(plans)[rank]

    def copy(self) -> None:
        """Copy the tensors that this rank writes, so that training can change them. None may be on a disk."""
        assert self._plan is not None
        self._planner.copy(self._plan)

    def write(self, step: int, numbers: dict[str, float]) -> None:
        """Write the checkpoint of a step, with its numbers. Raises CheckpointError on all ranks."""
        plan = self._plan
        assert plan is not None
        path = folder.partial_path(self._folder, step)
        writer = dcp.FileSystemWriter(path, per_thread_copy_ahead=0)  # above 0 uses a stream of GPU 0 on every rank
        files = files_under(self._key_file, _data_set(self._random, step))
        writer.fs = Streams(files)

        def write_local() -> list[messages.WrittenChunk]:
            return messages.written_chunks(writer.write_data(writer.prepare_local_plan(plan), self._planner).wait())

        def check() -> None:
            name = not_finite((item.index.fqn, self._planner.lookup_object(item.index)) for item in plan.items)
            if name:
                raise ValueError(f"{name} {NOT_FINITE}")

        def finish(written: Sequence[object]) -> None:
            by_rank = msgspec.convert(written, list[list[messages.WrittenChunk]])
            results = [messages.write_results(chunks_of_rank) for chunks_of_rank in by_rank]
            with files.create(path / NUMBERS) as file:
                file.write(json.dumps(numbers).encode())
                sync_file(file)
            writer.finish(self._planner.metadata, results)
            folder.complete(self._folder, step)

        failure = f"step {step} was not saved in {self._folder}"
        self._coordinator.agree(failure, DIVERGED, check, lambda _: None)
        try:
            self._coordinator.agree(failure, folder.NEXT_STEP, write_local, finish)
        except CheckpointError:
            if self._coordinator.rank == 0:
                folder.discard(self._folder, step)
            raise


def _data_set(random: bytes, step: int) -> bytes:
    """Return the id of the checkpoint of a step. With it, a reader refuses a file of the checkpoint of another step."""
    return blake2b(random + step.to_bytes(8, "little"), digest_size=DATA_SET_BYTES).digest()
