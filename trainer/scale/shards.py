"""Prepared Criteo rows on disk: the files that trainer.prepare writes and every rank reads.

    DIR/manifest.json           the number of rows of each file; written last
    DIR/train-00000.bin …       rows of dtype ROW, back to back; all files but the last have the same number of rows
    DIR/held_out-00000.bin …    rows for evaluation, which are never trained on

All these files may be encrypted (encryption/). Only the rows of the current batch are memory-mapped, or decrypted, so
the files occupy no resident memory of a rank. Only the encrypted file that was read last stays open. A file that is
truncated during a run raises an error instead of SIGBUS.
"""

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from itertools import accumulate
from pathlib import Path
from typing import IO

import numpy as np
from numpy.typing import NDArray

from trainer.errors import DataError, require
from trainer.scale.criteo import BITS, DENSE_FEATURES, ROW, SPARSE_FEATURES, Criteo, CriteoConfig, pieces
from trainer.scale.disk import sync_file
from trainer.scale.encryption.file import DamagedFile
from trainer.scale.encryption.files import Files, files_under
from trainer.scale.multi_hot import MultiHot, is_multi_hot, open_multi_hot
from trainer.scale.tsv import read_tsv

FORMAT, VERSION = "criteo rows", 1
MANIFEST = "manifest.json"
TRAIN, HELD_OUT = "train", "held_out"
_CHECK_KEY = "Check criteo.key_file, or prepare it again with  python -m trainer.prepare"
DENSE_NAMES = tuple(f"I{feature}" for feature in range(1, DENSE_FEATURES + 1))
SPARSE_NAMES = tuple(f"C{feature}" for feature in range(1, SPARSE_FEATURES + 1))


@dataclass(frozen=True)
class Manifest:
    """The content of a prepared directory."""

    train: tuple[int, ...]  # rows of each shard
    held_out: tuple[int, ...]
    skipped: str  # a message with the number of skipped rows; empty if none
    columns: dict[str, dict[str, float]]  # by column: `maximum`; for categories also `present`, the rows with a value


def shard_name(part: str, number: int) -> str:
    return f"{part}-{number:05d}.bin"


class PartWriter:
    """Writes the rows of one part, one shard after the other."""

    def __init__(self, directory: Path, part: str, rows_per_shard: int, files: Files) -> None:
        self.directory, self.part, self.rows_per_shard, self.files = directory, part, rows_per_shard, files
        self.shards: list[int] = []  # rows of each shard
        self.file: IO[bytes] | None = None

    def write(self, rows: NDArray[np.void]) -> None:
        """Append rows to the current shard, and to further shards when it is full."""
        while len(rows):
            if self.file is None or self.shards[-1] == self.rows_per_shard:
                self.close()
                self.file = self.files.create(self.directory / shard_name(self.part, len(self.shards)))
                self.shards.append(0)
            fitting, rows = np.split(rows, [self.rows_per_shard - self.shards[-1]])
            self.file.write(fitting.tobytes())
            self.shards[-1] += len(fitting)

    def close(self) -> None:
        """Flush the current shard to the disk and close it."""
        if self.file is not None:
            sync_file(self.file)
            self.file.close()
            self.file = None


class Columns:
    """The maximum of each column, and the number of rows that have a value of each categorical feature."""

    def __init__(self) -> None:
        self.maxima = np.zeros(1 + DENSE_FEATURES + SPARSE_FEATURES)
        self.present = np.zeros(SPARSE_FEATURES, np.int64)

    def add(self, rows: NDArray[np.void]) -> None:
        """Take these rows into account."""
        if len(rows):
            values = [rows["label"][:, None], rows["dense"], rows["categories"]]
            np.maximum(self.maxima, np.concatenate([part.max(axis=0) for part in values]), out=self.maxima)
            self.present += (rows["present"][:, None] >> BITS & 1).sum(axis=0, dtype=np.int64)

    def summary(self) -> dict[str, dict[str, float]]:
        """Return the field `columns` of the manifest."""
        columns = {
            name: {"maximum": value}
            for name, value in zip(("label", *DENSE_NAMES, *SPARSE_NAMES), self.maxima.tolist(), strict=True)
        }
        for name, present in zip(SPARSE_NAMES, self.present.tolist(), strict=True):
            columns[name]["present"] = present
        return columns


def write_manifest(directory: Path, manifest: Manifest, files: Files) -> None:
    """Write the manifest, the last file of a directory; it marks the directory as complete."""
    header = {"format": FORMAT, "version": VERSION, "row": ROW.descr, "rows": sum(manifest.train + manifest.held_out)}
    with files.create(directory / MANIFEST) as file:
        file.write(json.dumps(header | asdict(manifest), indent=1).encode())
        sync_file(file)


def read_manifest(directory: Path, files: Files) -> Manifest:
    """Read the manifest. Raises DataError unless all files exist and have the size that the manifest says."""
    next_step = "Prepare it again with  python -m trainer.prepare"
    try:
        with files.open(directory / MANIFEST) as file:
            content = json.loads(file.read())
    except FileNotFoundError as error:
        cause = f"it has no {MANIFEST}, so trainer.prepare did not create or did not finish it"
        raise DataError(f"{directory} is not a prepared directory", cause, next_step) from error
    except DamagedFile as error:
        raise DataError(f"cannot read {directory}", str(error), _CHECK_KEY) from error
    except (OSError, ValueError) as error:
        raise DataError(f"cannot read {directory / MANIFEST}", str(error), next_step) from error
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        raise DataError(f"{directory} is not a prepared directory", f"its {MANIFEST} has another format", next_step)
    if content.get("version") != VERSION:
        cause = f"it has version {content.get('version')}, but this trainer reads version {VERSION}"
        raise DataError(f"cannot read {directory}", cause, next_step)
    try:
        shards = {part: tuple(int(rows) for rows in content[part]) for part in (TRAIN, HELD_OUT)}
        manifest = Manifest(shards[TRAIN], shards[HELD_OUT], str(content["skipped"]), content["columns"])
    except (KeyError, TypeError, ValueError) as error:
        raise DataError(f"{directory / MANIFEST} is damaged", f"it has no valid {error}", next_step) from error
    if not sum(manifest.train):
        raise DataError(f"{directory / MANIFEST} is damaged", "it has no row to train on", next_step)
    for part, counts in shards.items():
        for number, rows in enumerate(counts):
            _check_size(directory / shard_name(part, number), rows * ROW.itemsize, next_step, files)
    return manifest


def _check_size(file: Path, expected: int, next_step: str, files: Files) -> None:
    try:
        size = files.size(file)
    except DamagedFile as error:
        raise DataError(f"cannot read {file}", str(error), _CHECK_KEY) from error
    except OSError as error:
        raise DataError(f"cannot read {file}", str(error.strerror), next_step) from error
    if size != expected:
        raise DataError(f"{file} is damaged", f"it has {size:,} bytes instead of {expected:,}", next_step)


class StoredRows:
    """The rows of one part; a slice maps, or decrypts, and copies only its own rows."""

    def __init__(self, directory: Path, part: str, shards: Sequence[int], files: Files) -> None:
        self.directory, self.part, self.files = directory, part, files
        self.first_rows = [0, *accumulate(shards)]  # of each shard; the last item is the number of rows

    def __len__(self) -> int:
        return self.first_rows[-1]

    def __getitem__(self, span: slice) -> NDArray[np.void]:
        """Return rows `span.start` to `span.stop`, both within the part. Raises DataError if a file has changed."""
        return np.concatenate([np.empty(0, ROW), *(self._piece(*piece) for piece in pieces(span, self.first_rows))])

    def _piece(self, shard: int, first: int, size: int) -> NDArray[np.void]:
        file = self.directory / shard_name(self.part, shard)
        try:
            return self.files.rows(file, ROW, first, size)
        except (OSError, ValueError) as error:
            raise DataError(f"cannot read {file}", str(error), "The file was complete when the run started") from error


def open_shards(config: CriteoConfig, table_rows: Sequence[int], global_batch: int) -> Criteo:
    """Open a prepared directory as a source. Raises DataError if it is incomplete."""
    directory = Path(config.file)
    must = "0 for a prepared directory, which has its own held-out rows"
    require(config.held_out == 0, "criteo.held_out", config.held_out, must)
    files = files_under(config.key_file)
    manifest = read_manifest(directory, files)
    if config.strict and manifest.skipped:
        next_step = "Prepare it again with --strict, or leave out --strict"
        raise DataError(f"{directory} was prepared without malformed rows", manifest.skipped, next_step)
    train = StoredRows(directory, TRAIN, manifest.train, files)
    held_out = StoredRows(directory, HELD_OUT, manifest.held_out, files)
    return Criteo(str(directory), train, held_out, table_rows, global_batch, manifest.skipped)


def open_criteo(
    config: CriteoConfig, table_rows: Sequence[int], global_batch: int, warn: Callable[[str], None]
) -> Criteo | MultiHot:
    """Open `criteo.file`, a TSV or a directory, as a source. Raises DataError, ConfigError."""
    source: Criteo | MultiHot
    if is_multi_hot(Path(config.file)):
        for key, value in (("criteo.held_out", config.held_out), ("criteo.key_file", config.key_file)):
            must = "left out for MLPerf's multi-hot files: half of their last day is held out, and none is encrypted"
            require(not value, key, value, must)
        source = open_multi_hot(Path(config.file), table_rows, global_batch)
    elif Path(config.file).is_dir():
        source = open_shards(config, table_rows, global_batch)
    else:
        source = read_tsv(config, table_rows, global_batch, warn)
    if (source.num_samples or 0) < global_batch:
        fewer = f"fewer than the global batch of {global_batch}: rows repeat"
        warn(f"{config.file} has {source.num_samples} valid rows, {fewer}")
    return source
