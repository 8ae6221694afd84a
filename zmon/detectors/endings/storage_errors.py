"""Recognize by the last words of a rank that a disk is full or broken, and advise what to look at on its host."""

from __future__ import annotations

import re

from zmon.schema.rank import RankState

# strerror(3) of ENOSPC, EIO, EROFS and EDQUOT; torch.save (caffe2/serialize/inline_container.cc) hides the errno.
_FULL = re.compile(r"no space left|\[errno 28\]|enospc|disk quota exceeded|\[errno 122\]|edquot", re.IGNORECASE)
_BROKEN = re.compile(r"input/output error|\[errno 5\]|\beio\b|read-only file system|\[errno 30\]|erofs", re.IGNORECASE)
_UNWRITTEN = re.compile(r"pytorchstreamwriter failed writing|inline_container\.cc|file write failed", re.IGNORECASE)
# An absolute path: in quotes, or without quotes and below at least one folder.
_PATH = re.compile(r"""['"](/[^'"\n]+)['"]|(?<![\w.>-])(/(?:[\w.@+-]+/)+[\w.@+-]+)""")


def disk_steps(state: RankState) -> str | None:
    """Return what to do next if a disk ended the rank; None if its last words show no fault of a disk."""
    words = state.last_words
    if words is None or words.kind != "exception":
        return None
    is_full = _FULL.search(words.text) is not None
    is_broken = _BROKEN.search(words.text) is not None
    if not (is_full or is_broken or _UNWRITTEN.search(words.text)):
        return None
    path = _path(words.text)
    target = path or "PATH"
    where = "" if path else " (PATH: where the job writes, see its log)"
    if is_broken and not is_full:
        return (
            f"On {state.host}: `df -h {target}`, `dmesg -T | grep -iE 'i/o error|remount|ext4|xfs|nfs'`{where}. The "
            "disk or the mount failed: repair it, or write to another one. The file that was written is incomplete: "
            "restart the job from the checkpoint before it."
        )
    return (
        f"On {state.host}: `df -h {target}`, `df -i {target}`, `quota -s`{where}. The disk is full, or a quota is used "
        "up: delete old checkpoints or write elsewhere. The file that was written is incomplete: restart the job from "
        "the checkpoint before it."
    )


def _path(text: str) -> str | None:
    """Return the first path in the text that is no source file of a library."""
    paths = (quoted or plain for quoted, plain in _PATH.findall(text))
    return next((path for path in paths if not path.endswith((".cc", ".cpp", ".h", ".py"))), None)
