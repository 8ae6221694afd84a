"""The vocabulary on the wire: activities, phases, collective operations, severities, and the limits of labels.

On the wire a word is a plain string. A newer zmon may send a word that is not in these lists; it is shown unchanged.
This module uses the standard library only, because ranks import it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Literal

SCHEMA = 1

# New words are appended, because boxes store the position of a word.
ACTIVITIES = ("init", "train", "eval", "checkpoint", "done", "compile", "loader_start")
# The activities outside steps.
BETWEEN_STEPS = tuple(activity for activity in ACTIVITIES if activity not in ("train", "done"))

PHASES = ("data", "h2d", "embedding", "forward", "backward", "optimizer", "other", "offload")

OPS = (
    "all_to_all", "all_reduce", "all_gather", "reduce_scatter", "broadcast", "reduce", "gather", "scatter", "barrier",
    "send", "recv",
)  # fmt: skip

MAX_JOB_ID_LETTERS = 64
LAUNCH_ID_LETTERS = 8  # of a launch id, where a job is named by it
# A job id is also the name of a directory.
JOB_ID = re.compile(rf"(?!\.{{1,2}}$)[A-Za-z0-9._-]{{1,{MAX_JOB_ID_LETTERS}}}")

# The labels of a job: each one becomes a label of `zmon_job_info`.
MAX_LABELS = 16  # with those of zmon and of the scrape a series then has 20 labels; sites often allow 30
MAX_LABEL_BYTES = 128  # of name and value together
NAME = "name"  # the label that jobs of one kind share, so that what is learned from one holds for the others
# The label with the URL of the run's page at its experiment tracker. A job chooses its labels, so readers check the URL
# before they make it a link: http or https, a host, no user or password, and only letters that need no escaping in HTML
# or a terminal, except & and '.
RUN_PAGE = "run_page"
_URL = re.compile(
    r"https?://(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9.-]+)(:[0-9]{1,5})?"  # without a user: those letters have no @
    r"([/?#][A-Za-z0-9._~:/?#!$&*+,;=%@-]*)?"
)
COLLECTIVE_TIMEOUT = "collective_timeout_seconds"  # the label that says when torch ends a collective by itself
# The label of a process that had finished steps when it joined its process group: a rank that heals in its process.
STEPS_BEFORE_JOIN = "steps_before_join"
LABEL_LIMITS = f"a job has at most {MAX_LABELS} labels, with at most {MAX_LABEL_BYTES} bytes of name and value each"

# Sources of a rank's samples, the most certain first: the job itself, its DataLoader, the input of its model.
SAMPLES_SOURCES = ("declared", "loader", "model")
# Sources of a rank's floating-point operations, the most certain first: the job itself, a count of one of its steps.
FLOPS_SOURCES = ("declared", "counted")
# Sources that are no numbers of a rank: the share of time in which a GPU's tensor cores work, and the traffic of its
# memory, as the GPU measures them.
TENSOR_PIPE, DRAM = "tensor_pipe", "dram"
# The input and output of these are equally large on every rank. The splits of an all-to-all may differ, and in the
# remaining ops one rank has all the data. Lists of tensors may differ with NCCL, but not with gloo.
SAME_SIZE_OPS = ("all_reduce", "all_gather", "reduce_scatter")
# torch's name of the default process group, which every rank is in (_process_group_name in distributed_c10d.py).
DEFAULT_GROUP = "0"

STALL = "stall"  # the detector that reports jobs that stand still
MOVING_CAUSES = ("launcher_gone", "sequence_lag")  # causes of a warning of that detector about a job that still moves

# What proves a finding.
LOCK = "lock"  # the lock on a box shows whether a process lives
PROCESS_STATE = "process_state"  # a signal or the freezer has stopped a process, or a launcher has ended
LINK = "link"  # a link, or the connection to a host, is gone
SEQUENCE = "sequence"  # the sequences of collectives contradict each other
STACKS = "stacks"  # look after look, nothing has changed in the rank that the others wait for
DEVICE = "device"  # the driver of a device reports a fault
STEPS = "steps"  # the times or the values of steps
SILENCE = "silence"  # nothing but the lack of progress, or of answers
PROOFS = (LOCK, PROCESS_STATE, LINK, SEQUENCE, STACKS, DEVICE, STEPS, SILENCE)

LOSS = re.compile(r"(?<![a-z])loss(?![a-z])|normalized_entropy", re.IGNORECASE)  # train_loss, loss/main, log_loss
# Sources of a rank's losses, the most local first: the roots of its backward passes, and what the job reports.
LOSS_SOURCES = ("backward", "report")

WORDS_KINDS = ("exception", "exit", "signal")  # the kinds of a rank's last words

Severity = Literal["info", "warning", "critical"]  # severities of detectors; a newer zmon may have others
_SEVERITIES = ("info", "warning", "", "critical")  # the least severe first; "": a word that is unknown here


def second_job_id(job_id: str, launch_id: str) -> str:
    """Return the job id of a launch that began while another launch with the same job id lived."""
    suffix = f".{launch_id[:LAUNCH_ID_LETTERS]}"
    return job_id[: MAX_JOB_ID_LETTERS - len(suffix)] + suffix


def first_job_id(job_id: str, launch_id: str) -> str:
    """Return the job id that the launch wanted to have."""
    return job_id.removesuffix(f".{launch_id[:LAUNCH_ID_LETTERS]}") if launch_id else job_id


def severity_order(severity: str) -> int:
    """Return the position of a severity among all severities, the least severe first.

    An unknown word is above `warning`, because it may matter more, and below `critical`, so that it hides no page.
    """
    return _SEVERITIES.index(severity if severity in _SEVERITIES else "")


def word(words: Sequence[str], number: int, kind: str) -> str:
    """Return the word at this position; `activity-7` for a position that only a newer zmon knows."""
    return words[number] if number < len(words) else f"{kind}-{number}"


def in_order(words: Iterable[str], known: Sequence[str]) -> tuple[str, ...]:
    """Return each word once: first the known words in their order, then the others in alphabetical order."""
    present = set(words)
    return (*(word for word in known if word in present), *sorted(present.difference(known)))


def bounded_labels(labels: Mapping[str, str], limit: int = MAX_LABELS) -> dict[str, str]:
    """Return the first labels that are not too long, at most `limit` of them."""
    fitting = [(name, value) for name, value in labels.items() if _num_bytes(name, value) <= MAX_LABEL_BYTES]
    return dict(fitting[:limit])


def _num_bytes(name: str, value: str) -> int:
    return len(name.encode("utf-8", "replace")) + len(value.encode("utf-8", "replace"))


def run_page(labels: Mapping[str, str]) -> str:
    """Return the URL of the run's page; "" if the job has none, or one that is no plain link to a web page."""
    url = labels.get(RUN_PAGE, "")
    return url if _URL.fullmatch(url) else ""


def place_in_code(function: str, file: str, line: int) -> str:
    """Return a frame as people read it: `read() at loader.py:40`, and `<module> at train.py:7` outside functions."""
    return f"{function}{'' if function.startswith('<') else '()'} at {file}:{line}"
