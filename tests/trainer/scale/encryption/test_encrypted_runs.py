"""Tests of runs with encrypted data and checkpoints: they train as plain ones, and no file has a sample or a weight."""

import secrets
from pathlib import Path
from threading import Thread
from typing import Any

import numpy as np
import pytest
import torch
from click.testing import CliRunner

from tests.trainer.build import assert_equal, tensors
from trainer.errors import CheckpointError, ConfigError, DataError
from trainer.scale.criteo import ROW
from trainer.scale.encryption.file import HEADER_BYTES, EncryptedReader
from trainer.scale.encryption.files import files_under
from trainer.scale.encryption.key import WRAPPED_BYTES
from trainer.scale.encryption.rotate import main as rotate
from trainer.scale.prepare import prepare
from trainer.scale.run import Run
from trainer.scale.shards import MANIFEST

NUM_ROWS, TABLES = 40, 26  # of the TSV; a table for each category
MARKED = 7  # the sample, and the row of a table, whose bytes are looked for


def new_key(path: Path) -> str:
    """Write a new key to a private file, and return the path."""
    path.write_text(secrets.token_hex(32))
    path.chmod(0o600)
    return str(path)


@pytest.fixture
def key(tmp_path) -> str:
    """Return the path of a key."""
    return new_key(tmp_path / "key")


@pytest.fixture
def tsv(write_rows) -> Path:
    """Return a TSV in which each row has numbers and categories of its own."""
    return write_rows(
        *(
            [str(row % 2), *(str(row * 1009 + column) for column in range(13)), *[f"{row * 7_654_321:08x}"] * TABLES]
            for row in range(NUM_ROWS)
        )
    )


@pytest.fixture
def make_run(tmp_path, tsv, small_run):
    """Return a function that prepares rows and opens a run of three steps on them, in a folder of its own."""

    def make(name: str, key: str, *changes, data: Path | None = None) -> Run:
        folder = tmp_path / name
        folder.mkdir(exist_ok=True)
        out = data or folder / "data"
        if not out.exists():
            prepare([str(tsv)], out, rows_per_shard=15, held_out=0.1, warn=pytest.fail, key_file=key)
        return small_run(
            {
                "embedding": {"rows": [50] * TABLES},
                "model": {"dense_features": 13},
                "train": {"steps": 3, "global_batch": 16},
                "criteo": {"file": str(out), "key_file": key},
                "checkpoint": {"folder": str(folder / "saved"), "every": 1, "key_file": key},
                "sharding": {"kind": "table_wise"},
            },
            *changes,
        )

    return make


def files_with(folder: Path, marker: bytes) -> list[str]:
    """Return the names of the files below a folder that have these bytes."""
    return [path.name for path in sorted(folder.rglob("*")) if path.is_file() and marker in path.read_bytes()]


def test_run_on_encrypted_rows_is_bit_equal_to_a_plain_one(make_run, key) -> None:
    plain, encrypted = make_run("plain", ""), make_run("encrypted", key)
    for run in (plain, encrypted):
        run.train()
    assert_equal(tensors(plain), tensors(encrypted))
    resumed = make_run("encrypted", key)
    assert resumed.steps_done == 3
    assert torch.equal(resumed.trainer.flat.parameter, encrypted.trainer.flat.parameter)


def test_threads_read_rows_of_different_files_at_once(tmp_path, key, monkeypatch) -> None:
    """The loader reads ahead in a thread of its own while an evaluation reads held-out rows."""
    files = files_under(key)
    for name, label in (("train", 1), ("held_out", 2)):
        rows = np.zeros(1, ROW)
        rows["label"] = label
        with files.create(tmp_path / name) as file:
            file.write(rows.tobytes())
    held_out: list[Any] = []
    evaluation = Thread(target=lambda: held_out.append(files.rows(tmp_path / "held_out", ROW, 0, 1)))
    seek = EncryptedReader.seek

    def evaluate_meanwhile(reader: EncryptedReader, *place: int) -> int:
        if evaluation.ident is None:
            evaluation.start()
            evaluation.join(0.2)  # without a lock it would read now
        return seek(reader, *place)

    monkeypatch.setattr(EncryptedReader, "seek", evaluate_meanwhile)
    assert files.rows(tmp_path / "train", ROW, 0, 1)["label"] == 1
    evaluation.join(10)
    assert [rows["label"] for rows in held_out] == [2]


def test_no_file_has_a_sample_or_a_weight(make_run, key, tmp_path) -> None:
    """Every file that a run wrote is looked at. The same bytes are found if nothing is encrypted."""
    for name, run_key in (("plain", ""), ("encrypted", key)):
        run = make_run(name, run_key)
        row = run.source.rows[slice(MARKED, MARKED + 1)]  # type: ignore[attr-defined]
        sample = row["dense"].tobytes()
        assert len(sample) == ROW["dense"].itemsize
        run.train()
        _, weights, _ = next(run.trainer.tables.weights_and_states())
        for marker in (sample, weights[MARKED].contiguous().numpy().tobytes()):
            assert bool(files_with(tmp_path / name, marker)) == (run_key == ""), name
    assert not files_with(tmp_path, bytes.fromhex(Path(key).read_text()))


def damage(path: Path, place: int) -> None:
    """Flip a bit of the byte at this place of a file."""
    content = bytearray(path.read_bytes())
    content[place] ^= 1
    path.write_bytes(content)


def test_nothing_trained_on_a_damaged_sample_is_saved(make_run, key, tmp_path) -> None:
    make_run("first", key)
    data = tmp_path / "first" / "data"
    damage(data / "train-00001.bin", HEADER_BYTES + 5)
    run = make_run("second", key, data=data)
    error = r"cannot read .*/train-00001\.bin: chunk 0 of 1 of .* is not as it was written"
    with pytest.raises(DataError, match=error):
        run.train()
    assert not [*(tmp_path / "second" / "saved").iterdir()]


def test_file_of_another_data_set_is_refused(make_run, key, tmp_path) -> None:
    for name in ("first", "second"):
        make_run(name, key)
    other = tmp_path / "second" / "data" / "train-00000.bin"
    (tmp_path / "first" / "data" / "train-00000.bin").write_bytes(other.read_bytes())
    with pytest.raises(DataError, match=r"chunk 0 of .*/train-00000\.bin belongs to another data set"):
        make_run("first", key)


def test_wrong_missing_or_needless_key_is_refused_in_one_line(make_run, key, tmp_path) -> None:
    make_run("encrypted", key)
    make_run("plain", "")
    other = new_key(tmp_path / "other.key")
    for data, run_key, message in (
        ("encrypted", other, f"chunk 0 of .*/{MANIFEST}: the key is another one, or the header"),
        ("encrypted", "", f"{MANIFEST} is encrypted, and there is no key for it"),
        ("plain", key, f"{MANIFEST} is not an encrypted file"),
    ):
        with pytest.raises(DataError, match=message) as raised:
            make_run("refused", run_key, data=tmp_path / data / "data")
        assert "\n" not in str(raised.value)


def test_missing_key_of_checkpoints_is_an_error_at_the_start(make_run) -> None:
    with pytest.raises(ConfigError, match="cannot read the key in nowhere: No such file or directory"):
        make_run("plain", "", {"checkpoint": {"key_file": "nowhere"}})


@pytest.mark.parametrize("file", [".metadata", "numbers.json", "__0_0.distcp"])
def test_damaged_checkpoint_is_one_line_that_names_file_and_chunk(make_run, key, tmp_path, file) -> None:
    make_run("encrypted", key).train()
    damage(tmp_path / "encrypted" / "saved" / "step-00000003" / file, -20)  # in the last chunk
    with pytest.raises(CheckpointError, match=rf"chunk \d+ of \d+ of .*{file} is not as it was written") as raised:
        make_run("encrypted", key)
    assert "\n" not in str(raised.value)


def test_checkpoint_of_another_step_or_key_or_without_a_key_is_refused(make_run, key, tmp_path) -> None:
    make_run("encrypted", key).train()
    data, saved = tmp_path / "encrypted" / "data", tmp_path / "encrypted" / "saved"
    other = new_key(tmp_path / "other.key")
    with pytest.raises(CheckpointError, match=r"chunk 0 of .*/\.metadata: the key is another one"):
        make_run("encrypted", key, {"checkpoint": {"key_file": other}}, data=data)
    with pytest.raises(CheckpointError, match=r"\.metadata is encrypted, and there is no key for it"):
        make_run("encrypted", key, {"checkpoint": {"key_file": ""}}, data=data)
    older, newer = (saved / f"step-0000000{step}" / "numbers.json" for step in (2, 3))
    newer.write_bytes(older.read_bytes())
    with pytest.raises(CheckpointError, match=r"chunk 0 of .*/numbers\.json belongs to another data set"):
        make_run("encrypted", key)


def test_new_master_key_rewrites_headers_alone(make_run, key, tmp_path) -> None:
    make_run("encrypted", key).train()
    folder, other = tmp_path / "encrypted", new_key(tmp_path / "other.key")
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    arguments = [str(folder), "--key-file", key, "--new-key-file", other]
    done = CliRunner().invoke(rotate, arguments)
    assert done.exit_code == 0, done.output
    stored, rewritten = sum(map(len, before.values())), WRAPPED_BYTES * len(before)
    assert f"{len(before)} files have a new key, {rewritten:,} of {stored:,} bytes rewritten" in done.output
    for path, content in before.items():
        assert path.read_bytes()[HEADER_BYTES:] == content[HEADER_BYTES:]
        assert path.read_bytes() != content
    assert make_run("encrypted", other).steps_done == 3
    again = CliRunner().invoke(rotate, arguments)
    assert again.exit_code == 0, again.output
    assert f"0 files have a new key, 0 of 0 bytes rewritten, {len(before)} more had the new key already" in again.output


def test_rotation_with_a_wrong_key_is_one_line(make_run, key, tmp_path) -> None:
    make_run("encrypted", key)
    other = new_key(tmp_path / "other.key")
    done = CliRunner().invoke(rotate, [str(tmp_path / "encrypted"), "--key-file", other, "--new-key-file", other])
    assert done.exit_code == 2
    assert "cannot change the key of" in done.stderr
    assert done.stderr.count("\n") == 1


def test_rows_on_a_plain_disk_are_refused(small_config, key) -> None:
    tier = {"embedding": {"memory": 10_000, "tier": {"folder": "rows"}}}
    encrypted = {"checkpoint": {"folder": "saved", "key_file": key}}
    with pytest.raises(ConfigError, match=r"embedding\.tier\.folder is rows: it must be empty if data or checkpoints"):
        small_config(tier, encrypted)
    small_config(tier, encrypted, {"embedding": {"tier": {"folder_is_encrypted": True}}})
