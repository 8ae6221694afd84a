"""Tests of trainer.prepare. Files are read in order, malformed rows are reported, and output is complete or absent."""

import gzip
import io
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner
from rich.console import Console

from tests.places import REPOSITORY
from tests.trainer.build import criteo_row, file_names
from trainer.errors import DataError
from trainer.scale import prepare as module
from trainer.scale.criteo import CriteoConfig
from trainer.scale.prepare import LogProgress, _progress, main, prepare
from trainer.scale.shards import open_criteo


def tsv_rows(*numbers: int) -> bytes:
    """Return a row of TSV for each of these numbers, which all its integers have."""
    return "".join("\t".join(criteo_row(integers=str(number))) + "\n" for number in numbers).encode()


def first_integers(out: Path, global_batch: int) -> list[int]:
    """Return the first integers of one global batch."""
    source = open_criteo(CriteoConfig(str(out)), (10,) * 26, global_batch, warn=pytest.fail)
    return source.batch(0, 0, global_batch).dense[:, 0].expm1().round().int().tolist()


def test_plain_and_gzip_files_are_read_in_order(tmp_path) -> None:
    (tmp_path / "a.tsv").write_bytes(tsv_rows(*range(5)).removesuffix(b"\n"))
    (tmp_path / "b.gz").write_bytes(gzip.compress(tsv_rows(*range(5, 8))))
    (tmp_path / "c").write_bytes(tsv_rows(8, 9))
    files = [str(tmp_path / name) for name in ("a.tsv", "b.gz", "c")]
    reports: list[tuple[int, int]] = []
    out = tmp_path / "out"
    prepare(files, out, rows_per_shard=4, warn=pytest.fail, report=lambda *progress: reports.append(progress))
    assert first_integers(out, 10) == list(range(10))
    assert file_names(out) == ["manifest.json", "train-00000.bin", "train-00001.bin", "train-00002.bin"]
    assert reports == sorted(reports)
    assert reports[-1] == (sum(Path(file).stat().st_size for file in files), 10)


def test_command_prints_malformed_rows_and_summary(tmp_path) -> None:
    file, out = tmp_path / "rows.tsv", tmp_path / "out"
    file.write_bytes(tsv_rows(0, 1) + b"junk\n" * 9 + tsv_rows(*range(2, 20)))
    ended = CliRunner().invoke(main, [str(file), "--out", str(out), "--held-out", "0.25"])
    assert ended.exit_code == 0
    warnings = ended.stderr.splitlines()
    assert warnings[0] == f"prepare: {file}:3: column 2: the row has 1 columns instead of 40: row skipped"
    assert warnings[5:] == [f"prepare: {file}: 9 malformed of 29 rows skipped"]
    assert ended.stdout.startswith(f"{out}: 15 rows to train on, 5 held out, ")
    assert first_integers(out, 4) == [0, 1, 2, 4]


@pytest.mark.parametrize(
    ("content", "options", "fault"),
    [
        (
            b"junk\n" + tsv_rows(1),
            ["--strict"],
            r"rows.tsv:1: column 2: the row has 1 columns .* or leave out --strict",
        ),
        (b"junk\n", [], r"rows.tsv has no valid row: all 1 rows are malformed"),
        (gzip.compress(tsv_rows(*range(99)))[:-20], [], "cannot read .*rows.tsv: Compressed file ended before"),
    ],
)
def test_failure_leaves_no_directory(tmp_path, content: bytes, options: list[str], fault: str) -> None:
    file = tmp_path / "rows.tsv"
    file.write_bytes(content)
    ended = CliRunner().invoke(main, [str(file), "--out", str(tmp_path / "out"), *options])
    assert ended.exit_code == 2
    assert re.search(fault, ended.stderr.splitlines()[-1])
    assert file_names(tmp_path) == ["rows.tsv"]


def test_existing_output_is_not_replaced(tmp_path) -> None:
    file, out = tmp_path / "rows.tsv", tmp_path / "out"
    file.write_bytes(tsv_rows(1))
    out.mkdir()
    prepare([str(file)], out, warn=pytest.fail)  # an empty directory is fine
    with pytest.raises(DataError, match=r"out already exists: .* Remove it, or choose another --out"):
        prepare([str(file)], out, warn=pytest.fail)
    with pytest.raises(DataError, match=r"rows.tsv already exists"):
        prepare([str(file)], file, warn=pytest.fail)
    with pytest.raises(DataError, match=r"nowhere/out: No such file or directory"):
        prepare([str(file)], tmp_path / "nowhere" / "out", warn=pytest.fail)


def test_full_disk_leaves_no_directory(tmp_path, monkeypatch) -> None:
    def raise_disk_full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(module, "write_manifest", raise_disk_full)
    (tmp_path / "rows.tsv").write_bytes(tsv_rows(1))
    with pytest.raises(DataError, match=r"cannot write .*out: No space left on device. Free some space"):
        prepare([str(tmp_path / "rows.tsv")], tmp_path / "out", warn=pytest.fail)
    assert file_names(tmp_path) == ["rows.tsv"]


def test_killed_prepare_leaves_partial_directory_that_is_refused(tmp_path) -> None:
    file, out = tmp_path / "rows.tsv", tmp_path / "out"
    file.write_bytes(tsv_rows(*range(50)))
    script = (  # killed after all rows are written, just before the manifest
        "import os, sys; from trainer.scale import prepare as module;"
        "module.write_manifest = lambda *_: os.kill(os.getpid(), 9); module.main(sys.argv[1:])"
    )
    ended = subprocess.run(
        [sys.executable, "-c", script, str(file), "--out", str(out)],
        cwd=REPOSITORY,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
        capture_output=True,
        timeout=60,
        check=False,
    )
    assert ended.returncode == -signal.SIGKILL
    assert not out.exists()
    with pytest.raises(DataError, match=r"out.partial is not a prepared directory: it has no manifest.json"):
        first_integers(tmp_path / "out.partial", 2)
    with pytest.raises(DataError, match=r"out.partial exists: .* If none is running, remove it and prepare again"):
        prepare([str(file)], out, warn=pytest.fail)


def test_progress_in_log_is_a_line_every_30_seconds() -> None:
    lines: list[str] = []
    times = iter([0, 1, 31, 32, 60, 62])
    progress = LogProgress(1000, lines.append, clock=lambda: next(times))
    for percent in (1, 31, 32, 60, 62):
        progress(percent * 10, percent * 100)
    assert lines == ["31% read: 3,100 rows, 100 rows/s, 69 s left", "62% read: 6,200 rows, 100 rows/s, 38 s left"]


def test_progress_in_terminal_is_a_bar() -> None:
    screen = io.StringIO()
    with _progress(Console(file=screen, force_terminal=True, width=80), total_bytes=1000) as report:
        report(1000, 12_345)
    assert "━━" in screen.getvalue()
    assert "12,345 rows" in screen.getvalue()


def test_fast_prepare_prints_no_progress_to_log() -> None:
    log = io.StringIO()
    with _progress(Console(file=log), total_bytes=1000) as report:
        report(1000, 10)
    assert log.getvalue() == ""
