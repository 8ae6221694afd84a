"""The identity of the rank that wrote a box: its fields, and their encoding in the identity cell."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from dataclasses import field as dataclass_field
from typing import Annotated, Any, NamedTuple, get_type_hints

from zmon.format import plain, plain_lines
from zmon.schema.training_loops import LOOPS_BYTES


def text(raw: bytes) -> str:
    """Decode a fixed-width field to plain text in one line."""
    return plain(_decoded(raw))


def lined_text(raw: bytes) -> str:
    """Decode a fixed-width field, such as a message, to plain text that may have several lines."""
    return plain_lines(_decoded(raw))


def _decoded(raw: bytes) -> str:
    return raw.split(b"\0", 1)[0].decode("utf-8", "replace")


def field(value: str, size: int) -> bytes:
    """Encode text for a fixed-width field; it is never cut in the middle of a character."""
    return value.encode("utf-8", "replace")[: size - 1].decode("utf-8", "ignore").encode()


class Packed(NamedTuple):
    """The encoding of one value in a cell: its struct code, and the conversions to and from it."""

    code: str
    encode: Callable[[Any], Any] = int
    decode: Callable[[Any], Any] = int


def _text(size: int) -> Packed:
    return Packed(f"{size}s", lambda value: field(value, size), text)


_DTYPE = re.compile(r"[a-z0-9_]+")
_SHARES_BYTES = 160


def fits_shares(shares: Mapping[str, float]) -> bool:
    """Return True if these are shares of dtypes, and the box has room for them."""
    return (
        all(_DTYPE.fullmatch(name) for name in shares)
        and all(isinstance(share, int | float) and 0 <= share <= 1 for share in shares.values())
        and len(_as_words(shares)) < _SHARES_BYTES
    )


def _as_words(shares: Mapping[str, float]) -> str:
    return " ".join(f"{name}={share:.6g}" for name, share in shares.items())


def _decoded_shares(raw: bytes) -> dict[str, float]:
    """Return the shares of dtypes, or none if they are damaged, because the rest of the box is still usable."""
    pairs = (word.partition("=") for word in text(raw).split())
    try:
        shares = {name: float(share) for name, _, share in pairs}
    except ValueError:
        return {}
    return shares if fits_shares(shares) else {}


LABELS_BYTES = 2560  # 16 labels of 128 bytes as JSON


def _decoded_labels(raw: bytes) -> dict[str, str]:
    try:
        labels = json.loads(text(raw) or "{}")
    except (ValueError, RecursionError):
        labels = None
    if not isinstance(labels, dict) or not all(isinstance(value, str) for value in labels.values()):
        raise ValueError("its labels are not a JSON object of strings")
    return {plain(name): plain(value) for name, value in labels.items()}


_MAX_INT = (1 << 31) - 1


def _limited(number: int) -> int:
    """Return the nearest number that fits: a box with an impossible one still tells the reader the name of its job."""
    return max(-_MAX_INT, min(int(number), _MAX_INT))


_LONG = Packed("q")
_INT = Packed("i", _limited)
_UID = Packed("16s", bytes.fromhex, bytes.hex)
_MOMENT = Packed("q", lambda seconds: round(seconds * 1e9), lambda ns: ns * 1e-9)
_RESTARTS = Packed("i", lambda limit: -1 if limit is None else _limited(limit), lambda n: None if n < 0 else n)
_JOB_ID = Packed("64s", str.encode, text)  # it may fill its field, without a zero byte at the end
_BACKEND = Packed("32s", lambda name: field(name or "", 32), lambda raw: text(raw) or None)
# In the form `bfloat16=0.98 float32=0.02`.
_SHARES = Packed(f"{_SHARES_BYTES}s", lambda shares: field(_as_words(shares), _SHARES_BYTES), _decoded_shares)
_LOOPS = Packed(f"{LOOPS_BYTES}s", lambda value: field(value, LOOPS_BYTES), lined_text)
_LABELS = Packed(f"{LABELS_BYTES}s", lambda labels: field(json.dumps(labels), LABELS_BYTES), _decoded_labels)


@dataclass(frozen=True, slots=True)
class Identity:
    """The rank that wrote the box: the fields of the identity cell, in this order and with these encodings."""

    pid: Annotated[int, _LONG]  # in the PID namespace of the rank
    run_uid: Annotated[str, _UID]  # of this start of the rank, in hexadecimal
    start_ns: Annotated[int, _LONG]  # when the probe attached, on the host's monotonic clock
    start_unix: Annotated[float, _MOMENT]  # the same moment in unix seconds
    launcher_pid: Annotated[int, _LONG]
    launcher_start: Annotated[int, _LONG]  # clock ticks after boot, as in /proc/<pid>/stat
    rank: Annotated[int, _INT]
    local_rank: Annotated[int, _INT]
    world_size: Annotated[int, _INT]
    local_world_size: Annotated[int, _INT]  # 0: unknown how many ranks share this host
    attempt: Annotated[int, _INT]
    restart_count: Annotated[int, _INT]
    max_restarts: Annotated[int | None, _RESTARTS]  # None: the launcher does not restart ranks
    watch: Annotated[int, _INT]  # the number of the `zmon watch` that it was started under; 0: none, or an older zmon
    job_id: Annotated[str, _JOB_ID]
    device: Annotated[str, _text(64)]
    backend: Annotated[str | None, _BACKEND]
    socket: Annotated[str, _text(256)]
    labels: Annotated[dict[str, str], _LABELS]
    launch_id: Annotated[str, _text(24)] = ""  # the same for all ranks of a launch and its restarts; "": unknown
    program: Annotated[str, _text(64)] = ""  # what the job runs, see LaunchEnvironment; "": unknown
    role: Annotated[str, _text(64)] = ""  # a rank is compared with ranks of its role; "": the job named none
    edge: Annotated[str, _text(16)] = "python"  # the implementation of the probe's hot path
    samples_source: Annotated[str, _text(16)] = ""  # where the numbers of samples come from; "": unknown
    device_name: Annotated[str, _text(96)] = ""  # as the driver names it; "": unknown, or the processors of the host
    flops_source: Annotated[str, _text(16)] = ""  # where the numbers of operations come from; "": unknown
    # The share of each dtype in the operations; empty: unknown.
    flops_dtypes: Annotated[dict[str, float], _SHARES] = dataclass_field(default_factory=dict)
    uncounted: Annotated[str, _text(256)] = ""  # what the count of operations leaves out, or why there is none
    # The loops around the end of its training steps, see zmon.schema.training_loops; "": unknown.
    loops: Annotated[str, _LOOPS] = ""


FIELDS: dict[str, Packed] = {
    name: hint.__metadata__[0] for name, hint in get_type_hints(Identity, include_extras=True).items()
}


def packed_identity(identity: Identity) -> list[Any]:
    """Return the values of the identity cell."""
    return [packed.encode(getattr(identity, name)) for name, packed in FIELDS.items()]


def unpacked_identity(values: Sequence[Any]) -> Identity:
    """Decode the values of an identity cell; raises ValueError if they are invalid."""
    return Identity(*[packed.decode(value) for packed, value in zip(FIELDS.values(), values, strict=True)])
