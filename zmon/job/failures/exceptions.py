"""Classify exceptions: each by its errno, text and type, and a chain by the link that explains it. Pure."""

from __future__ import annotations

import re

from zmon.job.failures.classes import CONSEQUENCES
from zmon.job.failures.raised import Raised
from zmon.job.failures.texts import ERRNO, TEXTS, TYPES, Rules

_ERRNO = re.compile(r"^[\w.]*(?:Error|error|Exception): \[Errno (\d+)\]")
_TWO_TYPES = re.compile(r"Input type \((.*?)\) and (?:weight|bias) type \((.*?)\)")
_SERVICE = re.compile(r"\b(?:requests|urllib3?|httpx|aiohttp|botocore|s3fs|huggingface_hub|wandb|gcsfs|http)\b")
_CONFIGURES = re.compile(
    r"[/\\](?:hydra[/\\]core|hydra[/\\]_internal[/\\]config\w*|omegaconf|jsonargparse|argparse\.py|hf_argparser\.py)"
)
_OF_RANKS = re.compile(
    r"multiprocessing[/\\](?:connection|managers|queues)|torch[/\\]distributed"
)  # the other end is a rank
# Their text quotes the code, in which any word may be.
_CODE_TYPES = re.compile(
    r"(?:^|\.)(?:(?:Module)?Attribute|Name|Key|UnboundLocal|Index|Type|Syntax|Indentation|Recursion)Error$"
)
_CODE_CLASSES = ("device_memory", "wrong_device", "wrong_shape", "checkpoint_mismatch", "assertion", "device_error")
# The type says it all, whatever a path or a name in the text may contain.
_CERTAIN_TYPES = re.compile(
    r"(?:^|\.)(?:FileNotFoundError|ModuleNotFoundError|PermissionError|KeyboardInterrupt|MemoryError|OutOfMemoryError"
    r"|UnicodeDecodeError|UnidentifiedImageError|JSONDecodeError|GatedRepoError|RepositoryNotFoundError)$"
)
# What makes further exceptions while it is handled.
_ROOTS = ("device_memory", "host_memory", "host_limit", "disk_full", "device_error", "assertion", "missing_module")


def class_of(item: Raised) -> str:
    """Return the class of one exception, without its causes; `code_error` if no rule knows it."""
    first, _, more = item.text.partition("\n")
    if match := _TWO_TYPES.search(first):
        return "wrong_device" if len({"cuda" in name for name in match.groups()}) == 2 else "wrong_shape"
    if _OF_RANKS.search(item.frames) and item.type.endswith(("EOFError", "gaierror")):
        return "connection_lost" if item.type.endswith("EOFError") else "rendezvous"
    if "/dev/shm" in first and "No space" in first:
        return "host_limit"
    if (match := _ERRNO.match(first)) and int(match[1]) in ERRNO:
        return ERRNO[int(match[1])]
    if _CERTAIN_TYPES.search(item.type):
        return _first(TYPES, item.type) or _first(TEXTS, first) or "code_error"
    # NCCL gives its reason in the second line; other libraries begin with an empty one.
    paragraph = f"{first}\n{more.strip().partition(chr(10) * 2)[0]}"
    for text in (paragraph,) if "NCCL" in first else (first, paragraph):
        name = _first(TEXTS, text)
        if name and (not _CODE_TYPES.search(item.type) or name in _CODE_CLASSES):
            return "storage" if name == "connection_lost" and _is_of_a_service(item) else name
        if name := _first(TYPES, item.type):
            return "storage" if name == "connection_lost" and _is_of_a_service(item) else name
    return "configuration" if _CONFIGURES.search(item.frames.rpartition('File "')[2]) else "code_error"


def root_of(item: Raised) -> tuple[str, Raised]:
    """Return class and exception of the link of a chain that explains the others.

    A cause explains what was raised from it. An exception that was only being handled may be a coincidence: a file
    that was looked for first. It counts if it is of a kind that makes other exceptions.
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
    return name, item


def _first(rules: Rules, text: str) -> str | None:
    return next((name for name, pattern in rules if pattern.search(text)), None)


def _is_of_a_service(item: Raised) -> bool:
    """Return True if a client of a service raised the exception, so no connection between ranks is meant."""
    return _SERVICE.search(f"{item.type}\n{item.frames}") is not None
