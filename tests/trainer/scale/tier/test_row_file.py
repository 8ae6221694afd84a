"""Tests of rows on a disk: rows that were written are read, and an error says what failed and what to change."""

import resource

import numpy as np
import pytest

from trainer.scale.tier import many_calls, row_file
from trainer.scale.tier.row_file import RowFile, TierError

ROWS, DIM = 20_000, 5
RECORD = np.dtype([("weight", np.float32, (DIM,)), ("state", np.float32)])


@pytest.fixture
def file(tmp_path) -> RowFile:
    """Return a new file of rows in the folder `new`."""
    return RowFile(tmp_path / "new", ROWS, RECORD)


def records(file: RowFile, rows: np.ndarray) -> np.ndarray:
    """Return records that differ from row to row."""
    result = np.zeros(len(rows), file.record)
    result["weight"] = rows[:, None] + np.arange(DIM) / 8
    result["state"] = -rows
    return result


@pytest.mark.parametrize("number", [1, 2, 31, 32, many_calls.MAX_CALLS * many_calls._THREADS + 1, 9000])
@pytest.mark.parametrize("apart", [1, 2])
def test_rows_that_were_written_are_read(file, number, apart) -> None:
    rows = np.arange(number) * apart + 7
    file.write(rows, records(file, rows))
    assert np.array_equal(file.read(rows), records(file, rows))
    assert np.array_equal(file.read(np.arange(ROWS))[rows], records(file, rows))


def test_rows_that_were_never_written_are_zero(file) -> None:
    assert file.read(np.array([3, 9]))["weight"].tolist() == [[0.0] * DIM] * 2


def test_read_of_no_rows_is_empty(file) -> None:
    assert file.read(np.arange(0, dtype=np.int64)).size == 0


def test_rows_of_more_bytes_than_one_request_moves_are_several(file, monkeypatch) -> None:
    monkeypatch.setattr(file, "_max_rows", 700)
    rows = np.concatenate([np.arange(1500), np.arange(2000, 3000, 2)])
    file.write(rows, records(file, rows))
    assert np.array_equal(file.read(rows), records(file, rows))


def test_row_behind_the_end_is_an_error(file) -> None:
    with pytest.raises(TierError, match=r"cannot read rows in \S+/new: 0 of 24 bytes were moved\. Free some"):
        file.read(np.array([5, ROWS + 3]))


def test_error_of_a_write_names_the_folder(file, monkeypatch) -> None:
    monkeypatch.setattr(file, "_descriptor", 1_000_000)
    with pytest.raises(TierError, match=r"cannot write rows in \S+/new: Bad file descriptor\. "):
        file.write(np.array([1, 4]), records(file, np.array([1, 4])))


def test_full_disk_is_known_at_once(tmp_path) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, hard))
    try:
        with pytest.raises(TierError, match=r"cannot allocate 0\.24 GB of rows in \S+: File too large\. Free"):
            RowFile(tmp_path, 10_000_000, RECORD)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_error_of_a_folder_that_cannot_be_made_names_its_key(tmp_path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(TierError, match=r"in \S+/file/rows: Not a directory\. .* --set embedding\.tier\.folder=…"):
        RowFile(tmp_path / "file" / "rows", 10, RECORD)


def test_machine_with_unknown_numbers_of_system_calls_is_refused(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(many_calls.platform, "machine", lambda: "riscv64")
    monkeypatch.setattr(row_file, "threads", many_calls.threads.__wrapped__)
    with pytest.raises(TierError, match="the numbers of system calls of riscv64 are not known"):
        row_file.RowFile(tmp_path, 10, RECORD)


def test_error_of_a_kernel_without_room_for_requests_names_the_limit(tmp_path, monkeypatch) -> None:
    def full(*_: object) -> int:
        raise BlockingIOError(11, "Resource temporarily unavailable")

    monkeypatch.setattr(many_calls.ManyCalls, "_call", full)
    monkeypatch.setattr(row_file, "threads", many_calls.threads.__wrapped__)
    with pytest.raises(TierError, match=r"all requests of the kernel are in use: raise fs\.aio-max-nr \(sysctl\)\. "):
        row_file.RowFile(tmp_path, 10, RECORD)
