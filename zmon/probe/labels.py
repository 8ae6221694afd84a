"""Labels of a job, as a box can hold them."""

from __future__ import annotations

import json
from collections.abc import Mapping

from zmon.box.identity import LABELS_BYTES
from zmon.probe.complaints import complain
from zmon.schema.names import LABEL_LIMITS, bounded_labels


def parse_labels(pairs: str) -> dict[str, str]:
    """Parse `owner=ann,model=dlrm` to a dictionary; parts that are not pairs are left out."""
    split = (pair.split("=", 1) for pair in pairs.split(",") if "=" in pair)
    return {key.strip(): value.strip() for key, value in split}


def storable_labels(labels: Mapping[str, str]) -> dict[str, str]:
    """Return the labels that the box can hold; complain about the others."""
    texts = {str(key): str(value) for key, value in labels.items()}
    stored = bounded_labels(texts)
    if num_dropped := len(texts) - len(stored):
        complain(f"cannot store {num_dropped} of {len(texts)} labels of this job: {LABEL_LIMITS}. Shorten them")
    if len(json.dumps(stored)) >= LABELS_BYTES:
        complain(f"cannot store the labels of this job: they are longer than {LABELS_BYTES:,} bytes. Shorten them")
        return {}
    return stored


def with_label(labels: Mapping[str, str], name: str, value: str) -> dict[str, str]:
    """Return the labels with a label that zmon sets; without it if its value is empty or does not fit."""
    other_labels = {key: text for key, text in labels.items() if key != name}
    all_labels = {**other_labels, name: value}
    fits = bounded_labels(all_labels) == all_labels and len(json.dumps(all_labels)) < LABELS_BYTES
    return all_labels if value and fits else other_labels
