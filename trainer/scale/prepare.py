"""The command that converts Criteo TSVs to binary shards: `python -m trainer.prepare day_0.gz … --out DIR`.

It reads the TSVs, plain or .gz, once and in order, about a thousand rows at a time, so they may be larger than memory.
DIR appears only when everything is written. It takes 164 bytes per row, and serves any number of ranks and any size of
tables.
"""

import shutil
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path

import click
from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

from trainer.errors import DataError, TrainerError
from trainer.scale.criteo import is_held_out
from trainer.scale.disk import sync_folder
from trainer.scale.encryption.files import files_under
from trainer.scale.shards import HELD_OUT, TRAIN, Columns, Manifest, PartWriter, write_manifest
from trainer.scale.tsv import TsvReader, check_file

ROWS_PER_SHARD = 4_000_000  # 656 MB per file; Criteo-Kaggle needs a dozen files, Criteo 1 TB about a thousand
LINE_SECONDS = 30  # interval of progress lines in a log

Report = Callable[[int, int], None]  # bytes read so far, valid rows in them


def prepare(
    files: Sequence[str],
    out: Path,
    *,
    rows_per_shard: int = ROWS_PER_SHARD,
    held_out: float = 0.0,
    strict: bool = False,
    key_file: str = "",
    warn: Callable[[str], None],
    report: Report = lambda num_bytes, num_rows: None,
) -> Manifest:
    """Write the rows of these TSVs to a new directory. On an error, remove the directory and raise DataError.

    `key_file` names the key to encrypt them with (encryption/key.py). Raises ConfigError if there is none.
    """
    for file in files:
        check_file(file)
    reader, columns, opener = TsvReader(strict, warn), Columns(), files_under(key_file)
    with _new_directory(out) as directory:
        train = PartWriter(directory, TRAIN, rows_per_shard, opener)
        evaluation = PartWriter(directory, HELD_OUT, rows_per_shard, opener)
        with closing(train), closing(evaluation):
            num_rows = num_bytes = 0
            for file in files:
                for rows, position in reader.read(file):
                    mask = is_held_out(num_rows, len(rows), held_out)
                    train.write(rows[~mask])
                    evaluation.write(rows[mask])
                    columns.add(rows)
                    num_rows += len(rows)
                    report(num_bytes + position, num_rows)
                num_bytes += Path(file).stat().st_size
        skipped = reader.finish(", ".join(files))
        manifest = Manifest(tuple(train.shards), tuple(evaluation.shards), skipped, columns.summary())
        write_manifest(directory, manifest, opener)
    return manifest


@contextmanager
def _new_directory(out: Path) -> Iterator[Path]:
    """Yield a directory to write into, which is renamed to `out` if the block succeeds and removed if it fails.

    If the process is killed meanwhile, the directory stays as `out.partial`, and the next prepare reports it.
    """
    partial = out.with_name(f"{out.name}.partial")
    try:
        if out.exists() and (not out.is_dir() or any(out.iterdir())):
            raise DataError(
                f"{out} already exists", "prepare does not overwrite data", "Remove it, or choose another --out"
            )
        if out.is_mount():
            raise DataError(
                f"cannot create {out}", "it is a mount point, which cannot be renamed", "Choose a directory in it"
            )
        try:
            partial.mkdir()
        except FileExistsError as error:
            cause = "an earlier prepare was killed, or another one is running"
            raise DataError(f"{partial} exists", cause, "If none is running, remove it and prepare again") from error
        try:
            yield partial
            sync_folder(partial)
            partial.rename(out)
            sync_folder(out.parent)
        except BaseException:  # also at Ctrl-C, because a remaining directory would stop the next prepare
            shutil.rmtree(partial, ignore_errors=True)
            raise
    except OSError as error:
        raise DataError(
            f"cannot write {out}", str(error.strerror), "Free some space, or choose another --out"
        ) from error


@contextmanager
def _progress(console: Console, total_bytes: int) -> Iterator[Report]:
    """Show the progress: a bar on a terminal, lines in a log."""
    if not console.is_terminal:
        yield LogProgress(total_bytes, lambda line: console.print(line, soft_wrap=True, highlight=False))
        return
    rows = TextColumn("{task.fields[rows]:,} rows")
    with Progress(BarColumn(), DownloadColumn(), rows, TimeRemainingColumn(), console=console) as bar:
        task = bar.add_task("", total=total_bytes, rows=0)
        yield lambda num_bytes, num_rows: bar.update(task, completed=num_bytes, rows=num_rows)


class LogProgress:
    """The progress as a line every 30 seconds."""

    def __init__(
        self, total_bytes: int, say: Callable[[str], None], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.total_bytes, self.say, self.clock = total_bytes, say, clock
        self.start = self.last_line = clock()

    def __call__(self, num_bytes: int, num_rows: int) -> None:
        now = self.clock()
        if now - self.last_line >= LINE_SECONDS:
            self.last_line = now
            seconds = now - self.start
            left = seconds / num_bytes * (self.total_bytes - num_bytes)
            share = num_bytes / self.total_bytes
            self.say(f"{share:.0%} read: {num_rows:,} rows, {num_rows / seconds:,.0f} rows/s, {left:,.0f} s left")


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("files", metavar="TSV…", nargs=-1, required=True)
@click.option("--out", required=True, type=click.Path(path_type=Path), help="The directory to create.")
@click.option(
    "--rows-per-shard", type=click.IntRange(min=1), default=ROWS_PER_SHARD, show_default=True, help="Rows of one file."
)
@click.option(
    "--held-out",
    type=click.FloatRange(0, 0.5),
    default=0.1,
    show_default=True,
    help="Ratio of rows held out for evaluation, spread evenly over the files.",
)
@click.option("--strict", is_flag=True, help="Stop at a malformed row instead of skipping it.")
@click.option(
    "--encrypt-key-file",
    default="",
    metavar="FILE",
    help="Encrypt the directory: a file of mode 0600 with 64 hexadecimal digits, env:VARIABLE or command:COMMAND.",
)
def main(
    files: tuple[str, ...], out: Path, rows_per_shard: int, held_out: float, strict: bool, encrypt_key_file: str
) -> None:
    """Convert Criteo TSVs, plain or .gz, to a directory for the option --data of the trainer."""
    console, start = Console(stderr=True), time.monotonic()

    def warn(line: str) -> None:
        console.print(f"prepare: {line}", markup=False, highlight=False, soft_wrap=True)

    try:
        total_bytes = sum(Path(file).stat().st_size for file in files if Path(file).exists())
        with _progress(console, total_bytes) as report:
            manifest = prepare(
                files,
                out.resolve(),
                rows_per_shard=rows_per_shard,
                held_out=held_out,
                strict=strict,
                key_file=encrypt_key_file,
                warn=warn,
                report=report,
            )
    except TrainerError as error:
        warn(str(error))
        sys.exit(2)
    if manifest.skipped:
        warn(manifest.skipped)
    num_train, num_held_out = sum(manifest.train), sum(manifest.held_out)
    rows_per_second = (num_train + num_held_out) / (time.monotonic() - start)
    click.echo(f"{out}: {num_train:,} rows to train on, {num_held_out:,} held out, {rows_per_second:,.0f} rows/s")
