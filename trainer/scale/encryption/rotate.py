"""Changes the master key of prepared directories and of checkpoints. It rewrites only the headers of their files.

A file that the new key already opens is left alone, so a command that was killed can be repeated.
"""

from __future__ import annotations

import sys
from pathlib import Path

import click

from trainer.errors import DataError, TrainerError
from trainer.scale.encryption.file import MAGIC, DamagedFile, EncryptedReader, rewrap
from trainer.scale.encryption.key import MasterKey


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("folders", metavar="FOLDER…", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("--key-file", required=True, help="The old key: a file, env:VARIABLE or command:COMMAND.")
@click.option("--new-key-file", required=True, help="The new key, in one of the same forms.")
def main(folders: tuple[Path, ...], key_file: str, new_key_file: str) -> None:
    """Wrap the keys of all encrypted files in these folders with another master key."""
    try:
        old, new = MasterKey.read(key_file), MasterKey.read(new_key_file)
        for folder in folders:
            click.echo(rotate(folder, old, new))
    except TrainerError as error:
        print(f"rotate_key: {error}", file=sys.stderr)
        sys.exit(2)


def rotate(folder: Path, old: MasterKey, new: MasterKey) -> str:
    """Change the key of all encrypted files in a folder; return a line about it. Raises DataError."""
    num_changed = num_skipped = 0
    rewritten_bytes = stored_bytes = 0
    try:
        for path in sorted(path for path in folder.rglob("*") if path.is_file()):
            with path.open("rb") as file:
                if file.read(len(MAGIC)) != MAGIC:
                    continue
            if _opens(path, new):
                num_skipped += 1
            else:
                rewritten_bytes += rewrap(path, old, new)
                stored_bytes += path.stat().st_size
                num_changed += 1
    except (OSError, DamagedFile) as error:
        cause = f"{error}; {num_changed + num_skipped} files already have the new key"
        raise DataError(f"cannot change the key of {folder}", cause, "Repeat it with the right keys") from error
    if not num_changed + num_skipped:
        raise DataError(f"{folder} has no encrypted file", "it is plain, or another folder", "Check the path")
    already = f", {num_skipped} more had the new key already" if num_skipped else ""
    changed = f"{num_changed} files have a new key, {rewritten_bytes:,} of {stored_bytes:,} bytes rewritten"
    return f"{folder}: {changed}{already}"


def _opens(path: Path, key: MasterKey) -> bool:
    try:
        EncryptedReader(path, key).close()
    except DamagedFile:
        return False
    return True
