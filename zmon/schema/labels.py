"""The limits of the labels of a job. Each one becomes a label of `zmon_job_info`."""

from __future__ import annotations

from collections.abc import Mapping

MAX_LABELS = 16  # with those of zmon and of the scrape a series then has 20 labels; sites often allow 30
MAX_LABEL_BYTES = 128  # of name and value together
LABEL_LIMITS = f"a job has at most {MAX_LABELS} labels, with at most {MAX_LABEL_BYTES} bytes of name and value each"


def bounded_labels(labels: Mapping[str, str], limit: int = MAX_LABELS) -> dict[str, str]:
    """Return the first labels that are not too long, at most `limit` of them."""
    fitting = [(name, value) for name, value in labels.items() if _num_bytes(name, value) <= MAX_LABEL_BYTES]
    return dict(fitting[:limit])


def _num_bytes(name: str, value: str) -> int:
    return len(name.encode("utf-8", "replace")) + len(value.encode("utf-8", "replace"))
