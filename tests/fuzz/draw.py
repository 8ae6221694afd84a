"""Draw random values, and change valid ones in random places. A seed and a number give the same draw each time."""

from __future__ import annotations

import copy
import json
import os
import random
from collections.abc import Iterator
from typing import Any

SEED_VARIABLE = "FUZZ_SEED"  # repeats a run: its seed is printed
NUM_QUICK = 100  # items of each test in `make test`
NUM_LONG = 20_000  # items of each test in `make test-all`
TEXTS = (
    "", "a", "job", "..", "/", "../../x", "/../../../tmp/x", "\x1b[2J", "a\nb", "a\0b", "\u202ea", "é", "😀", "'\"\\",
    "{{7*7}}", "<script>", "x" * 300, "0", "-1", "1e9", "NaN", "null", "%n%s", "rank-0.box", "\x7f", "\x9b31m",
)  # fmt: skip
NUMBERS: tuple[Any, ...] = (
    0, 1, -1, 2, 63, 1 << 20, (1 << 20) + 1, 2_000_000_000, 1 << 31, 1 << 53, (1 << 62) + 1,
    (1 << 63) - 1, 1 << 64, 10**30,
    -(1 << 63), -(10**30), 0.5, -0.0, 1e-300, 1e11, 1e12, 1e18, 1e300, -1e300,
)  # fmt: skip
OTHER_VALUES: tuple[Any, ...] = (None, True, False, [], {}, [[]], [None], {"": None}, {"a": {"a": {}}})


def seed_of_long_run() -> int:
    """Return the seed that the environment names, else a new one."""
    return int(os.environ.get(SEED_VARIABLE) or int.from_bytes(os.urandom(4), "little"))


def draws(seed: int, number: int) -> Iterator[tuple[str, random.Random]]:
    """Yield this many sources of chance, each with the text that says how to repeat it."""
    for index in range(number):
        yield f"{SEED_VARIABLE}={seed}, item {index}", random.Random(f"{seed}-{index}")


def text(chance: random.Random) -> str:
    """Return a random text, often a bad one."""
    if chance.random() < 0.7:
        return chance.choice(TEXTS)
    return "".join(
        chr(chance.choice((chance.randrange(32), chance.randrange(128), chance.randrange(0xD800)))) for _ in range(8)
    )


def value(chance: random.Random) -> Any:
    """Return a random value of JSON."""
    kind = chance.randrange(4)
    if kind == 0:
        return text(chance)
    if kind == 1:
        return chance.choice(NUMBERS)
    if kind == 2:
        return chance.randrange(-10, 1000)
    return copy.deepcopy(chance.choice(OTHER_VALUES))


def changed(valid: Any, chance: random.Random) -> Any:
    """Return a copy of plain data with some random changes."""
    result = copy.deepcopy(valid)
    for _ in range(chance.choice((1, 1, 1, 2, 3, 8))):
        result = _change(result, chance)
    return result


def _change(root: Any, chance: random.Random) -> Any:
    """Change one place of plain data, mostly a deep one."""
    parent = key = None
    place = root
    while isinstance(place, dict | list) and place and chance.random() < 0.9:
        parent = place
        key = chance.choice(list(place)) if isinstance(place, dict) else chance.randrange(len(place))
        place = place[key]
    if parent is None:
        return value(chance) if chance.random() < 0.1 else root
    action = chance.randrange(6)
    if action == 0:
        del parent[key]
    elif action == 1 and isinstance(parent, dict):
        parent[text(chance)] = parent.pop(key)
    elif action == 2 and isinstance(parent, list):
        parent.extend([place] * chance.choice((1, 2, 100)))
    else:
        parent[key] = value(chance)
    return root


def body(data: Any, chance: random.Random) -> bytes:
    """Return JSON, now and then with damaged bytes."""
    raw = json.dumps(data, ensure_ascii=chance.random() < 0.5).encode("utf-8", "surrogatepass")
    return damaged(raw, chance) if chance.random() < 0.2 else raw


def damaged(raw: bytes, chance: random.Random) -> bytes:
    """Return bytes with some of them changed, cut off or inserted."""
    data = bytearray(raw)
    for _ in range(chance.choice((1, 1, 4, 20))):
        offset = chance.randrange(len(data) + 1)
        action = chance.randrange(4)
        if action == 0:
            data[offset:] = b""
        elif action == 1:
            data[offset:offset] = chance.choice(
                (b"\xff", b"\\u0000", b"\\ud800", b"[" * 2000, b'"', b"\x1b", chance.randbytes(3))
            )
        elif offset < len(data):
            data[offset] = chance.randrange(256)
    return bytes(data)
