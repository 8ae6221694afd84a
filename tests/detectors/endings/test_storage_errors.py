"""Tests of the next steps after a disk was full or broken."""

import pytest

from tests.build import raised
from tests.detectors.stalls import detect, others


@pytest.mark.parametrize(
    ("message", "command"),
    [
        ("[Errno 28] No space left on device: '/ckpt/step-100.pt'", "`quota -s`"),
        ("[Errno 122] Disk quota exceeded: '/ckpt/step-100.pt'", "`quota -s`"),
        ("[Errno 5] Input/output error: '/ckpt/step-100.pt'", "`df -h /ckpt/step-100.pt`, `dmesg -T"),
        ("[Errno 30] Read-only file system: '/ckpt/step-100.pt'", "`df -h /ckpt/step-100.pt`, `dmesg -T"),
        ("PytorchStreamWriter failed writing file data/0: file write failed", "`df -h PATH`"),
        ("[enforce fail at inline_container.cc:659] . unexpected pos 64 vs 0", "`df -h PATH`"),
        ("bad batch 17", "GPU error?"),  # another error
    ],
)
def test_disk_and_path_are_in_the_next_steps(message, command):
    detail = detect(raised(1, message=message), *others(1)).detail
    assert command in detail
    assert ("/ckpt/step-100.pt`" in detail) is ("/ckpt" in message)
    assert ("df -h" in detail) is ("GPU" not in detail)
