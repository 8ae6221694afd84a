"""The folder of checkpoints: `step-00001234` is complete, `step-00001234.partial` is being written or deleted.

A rename completes a checkpoint after all its files have reached the disk. Before the first file of an old checkpoint is
deleted, a rename takes its complete name away. So a folder with the name of a step is always complete, whenever a
process is killed. Only rank 0 calls these functions. They raise OSError.
"""

import re
import shutil
from collections.abc import Iterator
from itertools import count
from pathlib import Path

from trainer.scale.disk import sync_folder

COMPLETE = re.compile(r"step-(\d{8,})")
PARTIAL = ".partial"
NEXT_STEP = "Older checkpoints are complete. Free some space, or choose another folder with --set checkpoint.folder=…"


def checkpoint_path(folder: Path, step: int) -> Path:
    """Return the path of the complete checkpoint of a step."""
    return folder / f"step-{step:08d}"


def partial_path(folder: Path, step: int) -> Path:
    """Return the path of the checkpoint of a step while it is not complete."""
    return folder / f"step-{step:08d}{PARTIAL}"


def steps(folder: Path) -> list[int]:
    """Return the steps that have a complete checkpoint, in ascending order."""
    return sorted(int(match[1]) for path in _entries(folder) if (match := COMPLETE.fullmatch(path.name)))


def tidy(folder: Path) -> int:
    """Create the folder and delete the remains of interrupted saves. Return the number of these saves."""
    folder.mkdir(parents=True, exist_ok=True)
    remains = [path for path in _entries(folder) if path.name.endswith(PARTIAL) and COMPLETE.match(path.name)]
    for path in remains:
        shutil.rmtree(path)
    return len(remains)


def complete(folder: Path, step: int) -> None:
    """Mark a checkpoint as complete, after all ranks have written their files."""
    sync_folder(partial_path(folder, step))
    partial_path(folder, step).rename(checkpoint_path(folder, step))
    sync_folder(folder)


def discard(folder: Path, step: int) -> None:
    """Delete the files of a failed save, as far as possible."""
    shutil.rmtree(partial_path(folder, step), ignore_errors=True)


def prune(folder: Path, keep: int) -> None:
    """Delete all checkpoints except the newest ones."""
    for step in steps(folder)[:-keep]:
        checkpoint_path(folder, step).rename(partial_path(folder, step))
        shutil.rmtree(partial_path(folder, step))


def set_aside(folder: Path, after: int) -> list[str]:
    """Rename the checkpoints of later steps, which belong to a run that is not continued; return the new names."""
    names = []
    for step in steps(folder):
        if step > after:
            old = checkpoint_path(folder, step)
            candidates = (old.with_suffix(f".aside-{number}") for number in count(1))
            new = next(path for path in candidates if not path.exists())
            names.append(old.rename(new).name)
    return names


def _entries(folder: Path) -> Iterator[Path]:
    return (path for path in folder.iterdir() if path.is_dir())
