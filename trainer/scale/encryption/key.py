"""The master key of encrypted files: 32 bytes, as 64 hexadecimal digits in a file, a variable or a command's output.

Each file has a random key of its own, which the master key wraps (AES key wrap, RFC 3394). A new master key therefore
changes only the headers of files. No message, log or exception contains the key, and a process that has one writes no
core dump.
"""

from __future__ import annotations

import os
import resource
import secrets
import shlex
import subprocess
from pathlib import Path

from trainer.errors import ConfigError

KEY_BYTES = 32  # AES-256
WRAPPED_BYTES = KEY_BYTES + 8  # RFC 3394
_COMMAND_SECONDS = 60
_VARIABLE, _COMMAND = "env:", "command:"
_FORM = "Give 64 hexadecimal digits, as  openssl rand -hex 32  makes them"


class KeyMismatch(Exception):
    """A wrapped key is damaged, or another master key wrapped it."""


class MasterKey:
    """A master key. Its repr does not show the key."""

    def __init__(self, key: bytes) -> None:
        self._key = key

    @classmethod
    def read(cls, source: str) -> MasterKey:
        """Read the key from a file, from `env:VARIABLE` or from `command:COMMAND`. Raises ConfigError."""
        try:
            import cryptography  # noqa: F401
        except ModuleNotFoundError as error:
            next_step = "Install it with  pip install 'zmon-training[trainer,encryption]'"
            raise ConfigError("cannot use a key", "the package cryptography is not installed", next_step) from error
        soft, hard = resource.getrlimit(resource.RLIMIT_CORE)
        if soft:
            resource.setrlimit(resource.RLIMIT_CORE, (0, hard))  # a core dump would contain the key
        text = _text(source)
        try:
            key = bytes.fromhex(text.strip())
        except ValueError:
            key = b""
        if len(key) != KEY_BYTES:
            raise ConfigError(f"{source} has no key", "what it has is not 64 hexadecimal digits", _FORM)
        return cls(key)

    def new_file_key(self) -> tuple[bytes, bytes]:
        """Return a new random key for a file, and the same key wrapped by the master key."""
        file_key = secrets.token_bytes(KEY_BYTES)
        return file_key, self.wrap(file_key)

    def unwrap(self, wrapped: bytes) -> bytes:
        """Return the key of a file. Raises KeyMismatch."""
        from cryptography.hazmat.primitives.keywrap import InvalidUnwrap, aes_key_unwrap

        try:
            return aes_key_unwrap(self._key, wrapped)
        except InvalidUnwrap:
            raise KeyMismatch("the key is another one, or the header of the file is damaged") from None

    def wrap(self, file_key: bytes) -> bytes:
        """Return the key of a file, wrapped by the master key."""
        from cryptography.hazmat.primitives.keywrap import aes_key_wrap

        return aes_key_wrap(self._key, file_key)


def _text(source: str) -> str:
    """Return what a file, a variable or a command has as the key. Raises ConfigError."""
    if source.startswith(_VARIABLE):
        name = source.removeprefix(_VARIABLE)
        text = os.environ.pop(name, None)  # the processes that this one starts do not get it
        if text is None:
            raise ConfigError(f"there is no key in {source}", f"the variable {name} is not set", _FORM)
        return text
    if source.startswith(_COMMAND):
        return _output(source.removeprefix(_COMMAND))
    file = Path(source)
    try:
        if (mode := file.stat().st_mode & 0o077) != 0:
            cause = f"others than its owner may use it (mode {mode:03o})"
            raise ConfigError(f"{file} is not secret", cause, f"Run  chmod 600 {file}")
        return file.read_text(encoding="ascii")
    except (OSError, UnicodeDecodeError) as error:
        cause = error.strerror or str(error) if isinstance(error, OSError) else "it is not text"
        raise ConfigError(f"cannot read the key in {file}", cause, _FORM) from None


def _output(command: str) -> str:
    """Return the output of a command. No message contains it."""
    next_step = "Run it by hand as the user of the job"
    try:
        done = subprocess.run(shlex.split(command), capture_output=True, timeout=_COMMAND_SECONDS, check=False)
    except (OSError, ValueError, subprocess.TimeoutExpired) as error:
        is_late = isinstance(error, subprocess.TimeoutExpired)
        cause = f"it took more than {_COMMAND_SECONDS} s" if is_late else type(error).__name__
        raise ConfigError("cannot run the command of the key", cause, next_step) from None
    if done.returncode:
        raise ConfigError("the command of the key failed", f"its exit code is {done.returncode}", next_step)
    return done.stdout.decode("ascii", "replace")
