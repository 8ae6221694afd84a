"""The password of Alertmanager on one machine.

Alertmanager answers every web page (`Access-Control-Allow-Origin: *`, and it has no option for it), so without a
password any page that somebody opens in a browser could silence all alerts. The password is in a file that only the
user can read. Alertmanager itself gets a bcrypt hash, from the library that login programs use (libxcrypt).
"""

from __future__ import annotations

import ctypes
import os
import secrets
import stat
from pathlib import Path

from zmon.errors import PartFailed
from zmon.files.writing import replace_file

FILE = "alertmanager.password"  # name of the file in the data directory
USER = "zmon"
_LIBRARIES = ("libcrypt.so.1", "libcrypt.so.2")  # Debian; Fedora
_SALT_CHARACTERS = "./ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
_COST = "04"  # the smallest: nobody guesses 256 random bits, and Alertmanager computes the hash for requests


def password(data_dir: Path) -> str:
    """Return the password in the data directory; make one if there is none that is private to this user."""
    path = data_dir / FILE
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return _new_password(path)
    with os.fdopen(fd) as file:
        status, text = os.fstat(fd), file.read().strip()
    if status.st_uid != os.geteuid() or stat.S_IMODE(status.st_mode) & 0o077 or not text:
        return _new_password(path)
    return text


def _new_password(path: Path) -> str:
    text = secrets.token_urlsafe(32)
    replace_file(path, [text.encode()])
    return text


def bcrypt(text: str) -> str:
    """Return the bcrypt hash of a password. Raises PartFailed without the library."""
    salt = "".join(secrets.choice(_SALT_CHARACTERS) for _ in range(22))
    for name in _LIBRARIES:
        try:
            crypt = ctypes.CDLL(name).crypt
        except OSError:
            continue
        crypt.restype = ctypes.c_char_p
        crypt.argtypes = (ctypes.c_char_p, ctypes.c_char_p)
        hashed: bytes | None = crypt(text.encode(), f"$2b${_COST}${salt}".encode())
        if hashed is not None and hashed.startswith(b"$2b$"):
            return hashed.decode()
    raise PartFailed(
        "cannot make a password for Alertmanager", f"no {_LIBRARIES[0]} with bcrypt", "Run apt-get install libcrypt1"
    )
