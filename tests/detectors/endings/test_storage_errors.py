"""Tests of the next steps after a disk was full or broken."""

import pytest

from tests.build import raised
from tests.detectors.stalls import detect, others

FILE = "/ckpt/step-100.pt"


@pytest.mark.parametrize(
    ("message", "commands"),
    [
        (f"[Errno 28] No space left on device: '{FILE}'", f"`df -h {FILE}`, `df -i {FILE}`, `quota -s`"),
        (f"[Errno 122] Disk quota exceeded: '{FILE}'", f"`df -h {FILE}`, `df -i {FILE}`, `quota -s`"),
        (f"[Errno 5] Input/output error: '{FILE}'", f"`df -h {FILE}`, `dmesg -T"),
        (f"[Errno 30] Read-only file system: '{FILE}'", f"`df -h {FILE}`, `dmesg -T"),
        ("PytorchStreamWriter failed writing file data/0: file write failed", "`df -h PATH`"),
        ("[enforce fail at inline_container.cc:659] . unexpected pos 64 vs 0", "`df -h PATH`"),
    ],
)
def test_next_steps_after_a_disk_error_are_about_the_disk_of_the_file(message, commands):
    detail = detect(raised(1, message=message), *others(1)).detail
    assert commands in detail
    assert (FILE in detail) is (FILE in message)
    assert "GPU" not in detail


def test_next_steps_after_another_error_do_not_mention_the_disk():
    detail = detect(raised(1, message="bad batch 17"), *others(1)).detail
    assert "GPU error?" in detail
    assert "df -h" not in detail
