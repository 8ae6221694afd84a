"""Sends samples by Prometheus' remote write, which both Prometheus and VictoriaMetrics accept.

The format is a protobuf message (`prometheus.WriteRequest`) in a block of snappy. Snappy allows a block without any
compression, so neither needs a package.
"""

import struct
from collections.abc import Iterable, Mapping, Sequence

import requests

STALE = struct.unpack("<d", bytes.fromhex("02 00 00 00 00 00 f0 7f"))[0]  # the NaN by which Prometheus ends a series
_HEADERS = {
    "Content-Encoding": "snappy",
    "Content-Type": "application/x-protobuf",
    "X-Prometheus-Remote-Write-Version": "0.1.0",
}
Samples = Sequence[tuple[float, float]]  # unix seconds and value


def send(url: str, series: Iterable[tuple[Mapping[str, str], Samples]]) -> None:
    """Send series with their labels, `__name__` among them. Raises if the server refuses them."""
    message = b"".join(_field(1, _series(labels, samples)) for labels, samples in series)
    answer = requests.post(url, data=_snappy(message), headers=_HEADERS, timeout=60)
    assert answer.status_code in (200, 204), f"{url}: {answer.status_code} {answer.text[:300]}"


def _series(labels: Mapping[str, str], samples: Samples) -> bytes:
    head = b"".join(_field(1, _field(1, n.encode()) + _field(2, v.encode())) for n, v in sorted(labels.items()) if v)
    return head + b"".join(_field(2, _sample(time, value)) for time, value in samples)


def _sample(time: float, value: float) -> bytes:
    bits = struct.pack("<d", value)
    if value != value and bits != struct.pack("<d", STALE):
        bits = bytes.fromhex("01 00 00 00 00 00 f8 7f")  # the NaN of a page
    return b"\x09" + bits + b"\x10" + _varint(round(time * 1000))


def _field(number: int, content: bytes) -> bytes:
    return bytes([number << 3 | 2]) + _varint(len(content)) + content


def _varint(number: int) -> bytes:
    parts = bytearray()
    while number > 127:
        parts.append(number & 127 | 128)
        number >>= 7
    parts.append(number)
    return bytes(parts)


def _snappy(content: bytes) -> bytes:
    """Return a block of snappy that is one literal."""
    return _varint(len(content)) + b"\xfc" + struct.pack("<I", len(content) - 1) + content
