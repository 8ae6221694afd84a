"""Classify exceptions: each by its errno, text and type, and a chain by the link that explains it. Pure."""

from __future__ import annotations

import re

from zmon.job.failures.classes import CONSEQUENCES
from zmon.job.failures.output import MAX_TEXT
from zmon.job.failures.raised import Raised
from zmon.job.failures.texts import ERRNO, TEXTS, TYPES, Rules

_ERRNO = re.compile(r"^[\w.]*(?:Error|error|Exception): \[Errno (\d+)\]")
_TENSOR = re.compile(r"torch\.(cuda\.)?\w+Tensor\b|\((float|c10::\w+)\)")
_SERVICE = re.compile(r"\b(?:requests|urllib3?|httpx|aiohttp|botocore|s3fs|huggingface_hub|wandb|gcsfs|http)\b")
_CONFIGURES = re.compile(
    r"[/\\](?:hydra[/\\]core|hydra[/\\]_internal[/\\]config\w*|omegaconf|jsonargparse|argparse\.py|hf_argparser\.py)"
)
_OF_RANKS = re.compile(
    r"multiprocessing[/\\](?:connection|managers|queues)|torch[/\\]distributed"
)  # the other end is a rank
_MEETING = re.compile(
    r"elastic[/\\]rendezvous|jax[/\\]_src[/\\]distributed"
    r"|\bin (?:init_process_group|_store_based_barrier|next_rendezvous|_create_c10d_store)\b"
)
_CODE_CLASSES = (  # that count although the text quotes code
    "device_memory", "wrong_device", "wrong_shape", "checkpoint_mismatch", "assertion", "device_error",
)  # fmt: skip
# The type says it all, whatever a path or a name in the text may contain.
_CERTAIN_TYPES = re.compile(
    r"(?:^|\.)(?:FileNotFoundError|ModuleNotFoundError|PermissionError|KeyboardInterrupt|MemoryError|OutOfMemoryError"
    r"|UnicodeDecodeError|UnidentifiedImageError|JSONDecodeError|GatedRepoError|RepositoryNotFoundError)$"
)
_RAISES = re.compile(r"(?:^|\n)\s*raise\b[^\n]*(?:\n[\s^~]*)?$")  # the last frame's code
# What makes further exceptions while it is handled.
_ROOTS = ("device_memory", "host_memory", "host_limit", "disk_full", "device_error", "assertion", "missing_module")


def class_of(item: Raised) -> str:
    """Return the class of one exception, without its causes; `code_error` if no rule knows it."""
    name = _class_of(item)
    if name == "connection_lost" and _is_of_a_service(item):
        return "storage"
    if name in ("connection_lost", "collective_timeout") and _MEETING.search(item.frames):
        return "rendezvous"
    return name


def _class_of(item: Raised) -> str:
    first, _, more = item.text[: 2 * MAX_TEXT].partition("\n")
    types = [bool(match[1]) for match in _TENSOR.finditer(first)]
    if len(types) == 2:  # one that is there and one that should be
        return "wrong_shape" if types[0] == types[1] else "wrong_device"
    if _OF_RANKS.search(item.frames) and item.type.endswith(("EOFError", "gaierror")):
        return "connection_lost" if item.type.endswith("EOFError") else "rendezvous"
    if "/dev/shm" in first and "No space" in first:
        return "host_limit"
    if (match := _ERRNO.match(first)) and int(match[1]) in ERRNO:
        return ERRNO[int(match[1])]
    if _CERTAIN_TYPES.search(item.type):
        return _first(TYPES, item.type) or _first(TEXTS, first) or "code_error"
    # NCCL gives its reason in the second line, a colon announces it; other libraries begin with an empty line.
    paragraph = " ".join([first, *more.strip().partition("\n\n")[0].split("\n")])
    for text in (paragraph,) if "NCCL" in first or first.endswith(":") else (first, paragraph):
        name = _first(TEXTS, text)
        if name and (not item.quotes_code or name in _CODE_CLASSES):
            return name
    if name := _first(TYPES, item.type):
        return name
    return "configuration" if _CONFIGURES.search(item.frames.rpartition('File "')[2]) else "code_error"


def root_of(item: Raised) -> tuple[str, Raised]:
    """Return class and exception of the link of a chain that explains the others.

    A cause explains what was raised from it. An exception that was only being handled may be a coincidence: a file
    that was looked for first. It counts if it is of a kind that makes other exceptions, or if the code that handled it
    raised an exception that says less.
    """
    name = class_of(item)
    chain = [(class_of(cause), cause) for cause in item.causes if not cause.is_wrapper]
    if item.is_wrapper and chain:
        name, item = chain[-1]
    known = [(cause, link) for cause, link in chain if cause != "code_error"]
    roots = [(cause, link) for cause, link in known if cause in _ROOTS]
    if not item.is_handling and known:
        return known[0]
    if roots and (name == "code_error" or name in CONSEQUENCES):
        return roots[0]
    if known and name == "code_error" and _RAISES.search(item.frames):
        return known[0]
    return name, item


def _first(rules: Rules, text: str) -> str | None:
    return next((name for name, pattern in rules if pattern.search(text)), None)


def _is_of_a_service(item: Raised) -> bool:
    """Return True if a client of a service raised the exception, so no connection between ranks is meant."""
    return _SERVICE.search(f"{item.type}\n{item.frames}") is not None
