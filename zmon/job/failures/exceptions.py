"""Classify exceptions: each by its errno, text and type, and a chain by the link that explains it. Pure."""

from __future__ import annotations

import re

from zmon.job.failures.classes import CONSEQUENCES
from zmon.job.failures.output import MAX_TEXT
from zmon.job.failures.raised import Raised
from zmon.job.failures.texts import TEXTS, Rules, rules

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
    "missing_module",
)  # fmt: skip
# The type says it all, whatever a path or a name in the text may contain.
_CERTAIN_TYPES = re.compile(
    r"(?:^|\.)(?:FileNotFoundError|ModuleNotFoundError|PermissionError|KeyboardInterrupt|MemoryError|OutOfMemoryError"
    r"|\w*Config\w*(?:Error|Exception)|UnicodeDecodeError|UnidentifiedImageError|JSONDecodeError|GatedRepoError|RepositoryNotFoundError)$"
)
_RAISES = re.compile(r"(?:^|\n)\s*raise\b[^\n]*(?:\n[\s^~]*)?$")  # the last frame's code
# What makes further exceptions while it is handled.
_ROOTS = ("device_memory", "host_memory", "host_limit", "disk_full", "device_error", "assertion", "missing_module")

_TYPES = rules(  # by the end of the name, if the text says nothing
    ("killed", (r"KeyboardInterrupt$", r"SIGTERM\w*$")),
    ("host_memory", (r"(^|\.)MemoryError$", r"ray\..*OutOfMemoryError$")),
    ("device_memory", (r"OutOfMemoryError$", r"ResourceExhaustedError$")),
    ("missing_module", (r"ModuleNotFoundError$", r"ImportError$", r"PackageNotFoundError$")),
    ("missing_file", (
        r"FileNotFoundError$", r"(NotA|IsA)DirectoryError$",
        r"(Repository|Entry|Revision|Dataset|DataFiles)NotFoundError$")),
    ("permission", (r"PermissionError$", r"GatedRepoError$", r"AuthenticationError$", r"Credentials?Error$")),
    ("assertion", (r"AssertionError$",)),
    ("corrupt_data", (
        r"Unicode(Decode)?Error$", r"UnidentifiedImageError$", r"zlib\.error$", r"JSONDecodeError$", r"ParserError$",
        r"EOFError$", r"UnpicklingError$", r"BadZipFile$", r"tarfile\.ReadError$", r"BadGzipFile$", r"LZMAError$",
        r"SafetensorError$", r"Arrow(Invalid|\w*Error)$", r"DatasetGenerationError$")),
    ("configuration", (
        r"Config\w*(Error|Exception)$", r"ArgumentError$", r"UsageError$", r"ValidationError$", r"Misconfiguration\w*$",
        r"(Scanner|YAML|Yaml)Error$", r"MissingMandatoryValue$", r"InstantiationException$")),
    ("wrong_shape", (r"EinopsError$",)),
    ("diverged", (r"FloatingPointError$", r"NaN\w*Error$", r"NonFinite\w*$")),
    ("rendezvous", (r"Rendezvous\w*$", r"DistStoreError$")),
    ("connection_lost", (
        r"ConnectionResetError$", r"BrokenPipeError$", r"ConnectionAbortedError$", r"Dist(Network|Backend)Error$")),
    ("storage", (
        r"Connection(Refused)?Error$", r"HTTPError$", r"URLError$", r"Timeout(Error)?$", r"SSLError$", r"ClientError$",
        r"Hub\w*Error$", r"ProtocolError$", r"gaierror$", r"(Service|Server)(Unavailable|Disconnected)\w*$",
        r"socket\.timeout$", r"CommError$")),
)  # fmt: skip
_OF_ERRNO = {
    1: "permission", 2: "missing_file", 5: "storage", 12: "host_memory", 13: "permission",
    20: "missing_file", 21: "missing_file", 24: "host_limit", 28: "disk_full", 30: "permission",
    32: "connection_lost", 35: "storage", 70: "storage", 98: "rendezvous", 99: "rendezvous", 101: "storage",
    107: "storage", 110: "storage", 111: "storage", 113: "storage", 116: "storage", 121: "storage", 122: "disk_full",
}  # fmt: skip


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
    are_on_gpu = [bool(match[1]) for match in _TENSOR.finditer(first)]
    if len(are_on_gpu) == 2:  # the text names the type of the tensor and the type that it should have
        return "wrong_shape" if are_on_gpu[0] == are_on_gpu[1] else "wrong_device"
    if _OF_RANKS.search(item.frames) and item.type.endswith(("EOFError", "gaierror")):
        return "connection_lost" if item.type.endswith("EOFError") else "rendezvous"
    if "/dev/shm" in first and "No space" in first:
        return "host_limit"
    if (match := _ERRNO.match(first)) and int(match[1]) in _OF_ERRNO:
        return _OF_ERRNO[int(match[1])]
    if _CERTAIN_TYPES.search(item.type):
        return _first(_TYPES, item.type) or _first(TEXTS, first) or "code_error"
    # NCCL gives its reason in the second line, a colon announces it; other libraries begin with an empty line.
    paragraph = " ".join([first, *more.strip().partition("\n\n")[0].split("\n")])
    for text in (paragraph,) if "NCCL" in first or first.endswith(":") else (first, paragraph):
        name = _first(TEXTS, text)
        if name and (not item.quotes_code or name in _CODE_CLASSES):
            return name
    if name := _first(_TYPES, item.type):
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


def _first(table: Rules, text: str) -> str | None:
    return next((name for name, pattern in table if pattern.search(text)), None)


def _is_of_a_service(item: Raised) -> bool:
    """Return True if a client of a service raised the exception, so no connection between ranks is meant."""
    return _SERVICE.search(f"{item.type}\n{item.frames}") is not None
