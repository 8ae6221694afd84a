"""Tests of the next steps after a disk was full or broken."""

from dataclasses import replace

import pytest

from tests.build import raised, words
from tests.detectors.stalls import detect, others
from zmon.detectors.endings.storage_errors import disk_steps


def steps(message):
    return disk_steps(raised(1, last_words=words("exception", "builtins.OSError", message)))


@pytest.mark.parametrize(
    "message",
    [
        "[Errno 28] No space left on device: '/ckpt/step-100.pt'",
        "[Errno 122] Disk quota exceeded: '/ckpt/step-100.pt'",
        "[Errno 5] Input/output error: '/ckpt/step-100.pt'",
        "[Errno 30] Read-only file system: '/ckpt/step-100.pt'",
    ],
)
def test_disk_and_path_are_in_the_next_steps(message):
    assert "`df -h /ckpt/step-100.pt`" in steps(message)
    assert "GPU" not in steps(message)


@pytest.mark.parametrize(
    "message",
    [
        "PytorchStreamWriter failed writing file data/0: file write failed",
        "[enforce fail at inline_container.cc:659] . unexpected pos 64 vs 0",
    ],
)
def test_disk_is_in_the_next_steps_if_torch_could_not_write(message):
    assert "`df -h PATH`" in steps(message)


def test_another_error_has_no_disk_in_its_next_steps():
    assert steps("bad batch 17") is None
    assert "GPU error?" in detect(raised(1), *others(1)).detail


def test_frame_of_the_job_is_in_the_summary():
    last_words = words("exception", "builtins.ValueError", "bad batch 17")
    finding = detect(raised(1, last_words=replace(last_words, where="train.py:88, load_batch")), *others(1))
    assert "ValueError: bad batch 17 (in train.py:88, load_batch)" in finding.summary
