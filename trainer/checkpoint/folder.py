"""The folder of checkpoints: `step-00001234` is whole, `step-00001234.partial` is being written, deleted or left over.

A checkpoint becomes whole by one rename, after all that is in it has reached the disk, and ceases to be by one, before
its first file is deleted: so whatever is killed when, what has a step's name is all there. One rank alone calls these.
Raises OSError.
"""

import re
import shutil
from collections.abc import Iterator
from itertools import count
from pathlib import Path

from trainer.disk import keep, keep_names

WHOLE = re.compile(r"step-(\d{8,})")
PARTIAL = ".partial"


def at(folder: Path, step: int) -> Path:
    """Where the checkpoint of a step lies."""
    return folder / f"step-{step:08d}"


def partial(folder: Path, step: int) -> Path:
    """Where it lies while it is no checkpoint."""
    return folder / f"step-{step:08d}{PARTIAL}"


def steps(folder: Path) -> list[int]:
    """Of those that are whole, ascending."""
    return sorted(int(found[1]) for path in _entries(folder) if (found := WHOLE.fullmatch(path.name)))


def tidy(folder: Path) -> int:
    """Make the folder, and delete what was left in the middle of a save; how many that were."""
    folder.mkdir(parents=True, exist_ok=True)
    left = [path for path in _entries(folder) if path.name.endswith(PARTIAL) and WHOLE.match(path.name)]
    for path in left:
        shutil.rmtree(path)
    return len(left)


def write(path: Path, text: str) -> None:
    """To the disk, not only to the kernel."""
    with path.open("w") as file:
        file.write(text)
        keep(file)


def complete(folder: Path, step: int) -> None:
    """All ranks have written what is theirs: from now on it counts."""
    keep_names(partial(folder, step))
    partial(folder, step).rename(at(folder, step))
    keep_names(folder)


def discard(folder: Path, step: int) -> None:
    """A save has failed: what it has written takes no more room, as far as can be."""
    shutil.rmtree(partial(folder, step), ignore_errors=True)


def prune(folder: Path, keep: int) -> None:
    """Delete all but the newest."""
    for step in steps(folder)[:-keep]:
        at(folder, step).rename(partial(folder, step))
        shutil.rmtree(partial(folder, step))


def set_aside(folder: Path, after: int) -> list[str]:
    """Rename those of later steps, which belong to a run that is not gone on with; their new names."""
    names = []
    for step in steps(folder):
        if step > after:
            old = at(folder, step)
            new = next(new for n in count(1) if not (new := old.with_suffix(f".aside-{n}")).exists())
            names.append(old.rename(new).name)
    return names


def _entries(folder: Path) -> Iterator[Path]:
    return (path for path in folder.iterdir() if path.is_dir())
