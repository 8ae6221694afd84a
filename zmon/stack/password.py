"""The password of Alertmanager on one machine.

Alertmanager accepts requests from every web page (`Access-Control-Allow-Origin: *`), and no option changes that.
Without a password, any page that somebody opens in a browser could silence all alerts. The password is in a file that
only the user can read. Alertmanager itself gets a bcrypt hash.
"""

from __future__ import annotations

import os
import secrets
import stat
from pathlib import Path

import bcrypt

from zmon.steplog.files import replace_file

FILE = "alertmanager.password"  # name of the file in the data directory
USER = "zmon"
_COST = 4  # the smallest: nobody guesses 256 random bits, and Alertmanager computes the hash for requests


def password(data_dir: Path) -> str:
    """Return the password in the data directory; make one if there is none that is private to this user."""
    path = data_dir / FILE
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return _new_password(path)
    with os.fdopen(fd) as file:
        status = os.fstat(fd)
        text = file.read().strip()
    if status.st_uid != os.geteuid() or stat.S_IMODE(status.st_mode) & 0o077 or not text:
        return _new_password(path)
    return text


def _new_password(path: Path) -> str:
    text = secrets.token_urlsafe(32)
    replace_file(path, [text.encode()])
    return text


def bcrypt_hash(text: str) -> str:
    return bcrypt.hashpw(text.encode(), bcrypt.gensalt(_COST)).decode()
