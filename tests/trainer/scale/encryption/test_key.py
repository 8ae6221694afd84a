"""Tests of the master key: where it comes from, and that nothing shows it."""

import os
import resource

import pytest

from trainer.errors import ConfigError
from trainer.scale.encryption.key import MasterKey

TEXT = "0123456789abcdef" * 4  # names of tests have it, so it is the same in all processes


@pytest.fixture
def key_file(tmp_path):
    """Return the path of a private file with the key."""
    file = tmp_path / "key"
    file.write_text(f"{TEXT}\n")
    file.chmod(0o600)
    return file


def test_key_comes_from_a_file_a_variable_or_a_command(key_file, monkeypatch) -> None:
    monkeypatch.setenv("KEY_OF_TEST", TEXT)
    file_key, wrapped = MasterKey(bytes.fromhex(TEXT)).new_file_key()
    for source in (str(key_file), "env:KEY_OF_TEST", f"command:cat {key_file}"):
        assert MasterKey.read(source).unwrap(wrapped) == file_key
    assert "KEY_OF_TEST" not in os.environ  # children do not get it


def test_process_with_a_key_leaves_no_core(key_file) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_CORE)
    resource.setrlimit(resource.RLIMIT_CORE, (hard, hard))
    try:
        MasterKey.read(str(key_file))
        assert resource.getrlimit(resource.RLIMIT_CORE) == (0, hard)
    finally:
        resource.setrlimit(resource.RLIMIT_CORE, (soft, hard))


def test_no_text_of_a_key_has_it(key_file) -> None:
    key = MasterKey.read(str(key_file))
    for text in (repr(key), str(key), f"{key}"):
        assert TEXT not in text
        assert repr(bytes.fromhex(TEXT)) not in text


@pytest.mark.parametrize(
    ("source", "error"),
    [
        ("nowhere", "cannot read the key in nowhere: No such file or directory"),
        ("env:NO_KEY_HERE", "there is no key in env:NO_KEY_HERE: the variable NO_KEY_HERE is not set"),
        ("command:false", "the command of the key failed: its exit code is 1"),
        ("command:/no/such/program", "cannot run the command of the key: FileNotFoundError"),
    ],
)
def test_missing_key_is_one_line(source: str, error: str) -> None:
    with pytest.raises(ConfigError) as raised:
        MasterKey.read(source)
    assert error in str(raised.value)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize("content", [TEXT[:-1], TEXT + "00", "g" * 64, ""])
def test_invalid_key_is_refused_without_showing_it(key_file, content: str) -> None:
    key_file.write_text(content)
    with pytest.raises(ConfigError, match="has no key: what it has is not 64 hexadecimal digits") as raised:
        MasterKey.read(str(key_file))
    if content:  # every text has the empty one
        assert content not in str(raised.value)


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o644])
def test_key_that_others_may_read_is_refused(key_file, mode: int) -> None:
    key_file.chmod(mode)
    with pytest.raises(ConfigError, match=rf"is not secret: others than its owner may use it \(mode {mode & 0o77:03o}"):
        MasterKey.read(str(key_file))
