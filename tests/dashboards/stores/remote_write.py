"""Sends samples by Prometheus' remote write, which both Prometheus and VictoriaMetrics accept.

The format is a protobuf message (`prometheus.WriteRequest` in prompb/remote.proto and types.proto of Prometheus) in a
block of snappy (format_description.txt of google/snappy). Snappy allows a block without any compression, so neither
needs a package.
"""

import math
import struct
from collections.abc import Iterable, Mapping, Sequence

import requests

STALE = struct.unpack("<d", bytes.fromhex("02 00 00 00 00 00 f0 7f"))[0]  # the NaN by which Prometheus ends a series
_NAN = bytes.fromhex("01 00 00 00 00 00 f8 7f")  # as Prometheus stores a NaN that it scraped (value.NormalNaN)
# Fields of the messages. In a sample, the tag has the type of the field, too.
_TIMESERIES = 1  # WriteRequest
_LABELS, _SAMPLES = 1, 2  # TimeSeries
_NAME, _VALUE = 1, 2  # Label
_SAMPLE_VALUE, _SAMPLE_TIMESTAMP = b"\x09", b"\x10"  # 1: double; 2: varint, milliseconds
_DELIMITED = 2  # the type of bytes, strings and messages: their length comes first
_LITERAL = b"\xfc"  # snappy: 63 << 2 | 0, a literal whose length less 1 is in the next 4 bytes
_HEADERS = {
    "Content-Encoding": "snappy",
    "Content-Type": "application/x-protobuf",
    "X-Prometheus-Remote-Write-Version": "0.1.0",
}
Samples = Sequence[tuple[float, float]]  # unix seconds and value


def send(url: str, series: Iterable[tuple[Mapping[str, str], Samples]]) -> None:
    """Send series with their labels, among them `__name__`. Fails if the server refuses the samples."""
    message = b"".join(_field(_TIMESERIES, _series(labels, samples)) for labels, samples in series)
    answer = requests.post(url, data=_snappy(message), headers=_HEADERS, timeout=60)
    assert answer.status_code in (200, 204), f"{url}: {answer.status_code} {answer.text[:300]}"


def _series(labels: Mapping[str, str], samples: Samples) -> bytes:
    pairs = [_field(_NAME, n.encode()) + _field(_VALUE, v.encode()) for n, v in sorted(labels.items()) if v]
    points = [_sample(time, value) for time, value in samples]
    return b"".join([*(_field(_LABELS, pair) for pair in pairs), *(_field(_SAMPLES, point) for point in points)])


def _sample(time: float, value: float) -> bytes:
    bits = struct.pack("<d", value)
    if math.isnan(value) and bits != struct.pack("<d", STALE):
        bits = _NAN
    return _SAMPLE_VALUE + bits + _SAMPLE_TIMESTAMP + _varint(round(time * 1000))


def _field(number: int, content: bytes) -> bytes:
    return bytes([number << 3 | _DELIMITED]) + _varint(len(content)) + content


def _varint(number: int) -> bytes:
    """Return seven bits a byte, the lowest first; the eighth bit is set in all bytes but the last."""
    parts = bytearray()
    while number > 127:
        parts.append(number & 127 | 128)
        number >>= 7
    parts.append(number)
    return bytes(parts)


def _snappy(content: bytes) -> bytes:
    """Return a block of snappy that is one literal."""
    return _varint(len(content)) + _LITERAL + struct.pack("<I", len(content) - 1) + content
