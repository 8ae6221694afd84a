"""Checks passwords against their bcrypt hashes, outside the event loop and one at a time.

A bcrypt check takes 50 ms and more of a core, on purpose. A right password is remembered, so each scrape does not pay
for it again. A wrong one is not, so nobody can push the right ones out of memory.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import secrets
import string
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import bcrypt

from zmon.web.responses import Refusal

_MAX_BYTES = 72  # bcrypt takes no more; Go's implementation, which exporters use, ignores the rest
_MAX_KNOWN = 1000  # right passwords in memory
_MAX_WAITING = 64  # checks of all clients
_MAX_WAITING_OF_PEER = 8  # checks of one address
_HASH_LETTERS = string.ascii_letters + string.digits + "./"
_HASH_LENGTH = 31  # letters of a bcrypt hash after its salt
_DEFAULT_COST = 10


class Passwords:
    """The users of a server with the hashes of their passwords."""

    def __init__(self, hashes: dict[str, str], before: Passwords | None = None) -> None:
        """`before`: the users before a reload. Their right passwords stay known while their hashes are the same."""
        self._hashes = hashes
        # A hash that no password has. It is checked for unknown users, who then take as long as others.
        cost = max(map(_cost, hashes.values()), default=_DEFAULT_COST)
        letters = (secrets.choice(_HASH_LETTERS) for _ in range(_HASH_LENGTH))
        self._unknown_hash = bcrypt.gensalt(cost).decode() + "".join(letters)
        self._known: set[bytes] = before._known if before else set()
        self._key: bytes = before._key if before else secrets.token_bytes(32)
        self._thread: ThreadPoolExecutor = before._thread if before else ThreadPoolExecutor(1, "zmon-passwords")
        self._waiting: Counter[str] = Counter()

    async def are_right(self, user: str, password: str, peer: str = "") -> bool:
        """Return True if this is the password of this user. Raises Refusal if too many checks wait.

        `peer`: the address of the client. Checks for other addresses do not count against its share.
        """
        hashed = self._hashes.get(user)
        digest = self._digest(user, password, hashed or "")
        if digest in self._known:
            return True
        if self._waiting[peer] >= _MAX_WAITING_OF_PEER or self._waiting.total() >= _MAX_WAITING:
            raise Refusal(503, "too many checks of passwords wait, try again in some seconds")
        self._waiting[peer] += 1
        check = asyncio.wrap_future(self._thread.submit(self._check, digest, password, hashed))
        check.add_done_callback(lambda _: self._end_check(peer))
        return await asyncio.shield(check)  # if the client leaves, the thread still computes

    def _check(self, digest: bytes, password: str, hashed: str | None) -> bool:
        """Check one password, in the thread; another request may have checked it meanwhile."""
        if digest in self._known:
            return True
        is_right = _is_right(password, hashed or self._unknown_hash)
        if not is_right or hashed is None:
            return False
        if len(self._known) >= _MAX_KNOWN:
            self._known.clear()
        self._known.add(digest)
        return True

    def _end_check(self, peer: str) -> None:
        self._waiting[peer] -= 1
        if not self._waiting[peer]:
            del self._waiting[peer]

    def _digest(self, user: str, password: str, hashed: str) -> bytes:
        text = f"{len(user)}:{len(hashed)}:{user}{hashed}{password}"
        return hmac.digest(self._key, text.encode("utf-8", "surrogateescape"), hashlib.sha256)


def _is_right(password: str, hashed: str) -> bool:
    try:
        return bcrypt.checkpw(password.encode("utf-8", "surrogateescape")[:_MAX_BYTES], hashed.encode())
    except ValueError:  # the hash is damaged
        return False


def _cost(hashed: str) -> int:
    """Return the binary logarithm of the rounds of a hash, which `$2b$10$…` has in the middle."""
    return int(hashed.split("$")[2])
