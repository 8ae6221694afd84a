"""Criteo TSVs into files that any number of ranks train on: `python -m trainer.prepare day_0.gz … --out DIR`.

The TSVs, plain or .gz, are read once and in order, some thousand rows at a time, so they may be larger than memory.
DIR appears when all is written and never before. It takes 164 bytes a row and serves any number of ranks and
any size of tables.
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

from trainer.criteo import TsvReader, check_file, is_held_out
from trainer.disk import keep_names
from trainer.errors import DataError, TrainerError
from trainer.shards import HELD_OUT, TRAIN, Columns, Manifest, PartWriter, write_manifest

ROWS_PER_SHARD = 4_000_000  # 656 MB: Criteo-Kaggle in a dozen files, a terabyte of clicks in some thousand
LINE_SECONDS = 30  # between two lines of progress in a log

Told = Callable[[int, int], None]  # how many bytes are read, how many good rows were in them


def prepare(
    files: Sequence[str],
    out: Path,
    *,
    rows_per_shard: int = ROWS_PER_SHARD,
    held_out: float = 0.0,
    strict: bool = False,
    warn: Callable[[str], None],
    told: Told = lambda num_bytes, num_rows: None,
) -> Manifest:
    """Write the rows of these TSVs to a new directory. Raises DataError, and leaves nothing behind then."""
    for file in files:
        check_file(file)
    reader, columns = TsvReader(strict, warn), Columns()
    with _appearing(out) as directory:
        train = PartWriter(directory, TRAIN, rows_per_shard)
        apart = PartWriter(directory, HELD_OUT, rows_per_shard)
        with closing(train), closing(apart):
            num_rows = num_bytes = 0
            for file in files:
                for rows, position in reader.read(file):
                    is_apart = is_held_out(num_rows, len(rows), held_out)
                    train.write(rows[~is_apart])
                    apart.write(rows[is_apart])
                    columns.add(rows)
                    num_rows += len(rows)
                    told(num_bytes + position, num_rows)
                num_bytes += Path(file).stat().st_size
        skipped = reader.finish(", ".join(files))
        manifest = Manifest(tuple(train.shards), tuple(apart.shards), skipped, columns.summary())
        write_manifest(directory, manifest)
    return manifest


@contextmanager
def _appearing(out: Path) -> Iterator[Path]:
    """A directory to write into: it becomes `out` as a whole if the block ends well, else it is removed.

    Killed in between, it stays under a name of its own, which tells the next one.
    """
    partial = out.with_name(f"{out.name}.partial")
    try:
        if out.exists() and (not out.is_dir() or any(out.iterdir())):
            raise DataError(
                f"{out} is there already", "it may be of use to somebody", "Remove it, or name another --out"
            )
        if out.is_mount():
            raise DataError(
                f"cannot make {out} at one stroke", "it is a mount point", "Name a directory in it as --out"
            )
        try:
            partial.mkdir()
        except FileExistsError as error:
            cause = "an earlier prepare was killed, or one is at work"
            raise DataError(f"{partial} is there", cause, "If none is, remove it and prepare again") from error
        try:
            yield partial
            keep_names(partial)
            partial.rename(out)
            keep_names(out.parent)
        except BaseException:  # Ctrl-C too: what is left would keep the next one from beginning
            shutil.rmtree(partial, ignore_errors=True)
            raise
    except OSError as error:
        raise DataError(f"cannot write {out}", str(error.strerror), "Make room, or name another --out") from error


@contextmanager
def _progress(console: Console, total_bytes: int) -> Iterator[Told]:
    """A bar in a terminal, a line now and then in a log."""
    if not console.is_terminal:
        yield Lines(total_bytes, lambda line: console.print(line, soft_wrap=True, highlight=False))
        return
    rows = TextColumn("{task.fields[rows]:,} rows")
    with Progress(BarColumn(), DownloadColumn(), rows, TimeRemainingColumn(), console=console) as bar:
        task = bar.add_task("", total=total_bytes, rows=0)
        yield lambda num_bytes, num_rows: bar.update(task, completed=num_bytes, rows=num_rows)


class Lines:
    """How far it is, every half a minute."""

    def __init__(
        self, total_bytes: int, say: Callable[[str], None], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.total_bytes, self.say, self.clock = total_bytes, say, clock
        self.start = self.said = clock()

    def __call__(self, num_bytes: int, num_rows: int) -> None:
        now = self.clock()
        if now - self.said >= LINE_SECONDS:
            self.said = now
            seconds = now - self.start
            left = seconds / num_bytes * (self.total_bytes - num_bytes)
            share = num_bytes / self.total_bytes
            self.say(f"{share:.0%} read: {num_rows:,} rows, {num_rows / seconds:,.0f} a second, {left:,.0f} s left")


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("files", metavar="TSV…", nargs=-1, required=True)
@click.option("--out", required=True, type=click.Path(path_type=Path), help="The directory to make.")
@click.option("--rows-per-shard", type=click.IntRange(min=1), default=ROWS_PER_SHARD, show_default=True)
@click.option(
    "--held-out",
    type=click.FloatRange(0, 0.5),
    default=0.1,
    show_default=True,
    help="Ratio of the rows to evaluate with, evenly spread over the files.",
)
@click.option("--strict", is_flag=True, help="Stop at a malformed row instead of skipping it.")
def main(files: tuple[str, ...], out: Path, rows_per_shard: int, held_out: float, strict: bool) -> None:
    """Turn Criteo TSVs, plain or .gz, into a directory to train on with --data."""
    console, start = Console(stderr=True), time.monotonic()

    def warn(line: str) -> None:
        console.print(f"prepare: {line}", markup=False, highlight=False, soft_wrap=True)

    try:
        total_bytes = sum(Path(file).stat().st_size for file in files if Path(file).exists())
        with _progress(console, total_bytes) as told:
            manifest = prepare(
                files,
                out.resolve(),
                rows_per_shard=rows_per_shard,
                held_out=held_out,
                strict=strict,
                warn=warn,
                told=told,
            )
    except TrainerError as error:
        warn(str(error))
        sys.exit(2)
    if manifest.skipped:
        warn(manifest.skipped)
    train, apart, seconds = sum(manifest.train), sum(manifest.held_out), time.monotonic() - start
    click.echo(f"{out}: {train:,} rows to train on, {apart:,} held out, {(train + apart) / seconds:,.0f} rows a second")


if __name__ == "__main__":
    main()
