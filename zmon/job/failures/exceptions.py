"""Classify exceptions by errno, text and type. A chain of exceptions has the class of its root cause. Pure."""

from __future__ import annotations

import errno
import re

from zmon.job.failures.classes import CONSEQUENCES
from zmon.job.failures.output import MAX_TEXT
from zmon.job.failures.raised import Raised
from zmon.job.failures.texts import TEXTS, Rules, rules

_ERRNO = re.compile(r"^[\w.]*(?:Error|error|Exception): \[Errno (\d+)\]")
# The type of a tensor in a message, such as `torch.cuda.FloatTensor` or `(c10::Half)`.
_TENSOR = re.compile(r"torch\.(?P<gpu>cuda\.)?\w+Tensor\b|\((float|c10::\w+)\)")
# Clients of storage and of other services.
_SERVICE = re.compile(r"\b(?:requests|urllib3?|httpx|aiohttp|botocore|s3fs|huggingface_hub|wandb|gcsfs|http)\b")
# Files of libraries that read arguments and configurations.
_CONFIGURATION = re.compile(
    r"[/\\](?:hydra[/\\]core|hydra[/\\]_internal[/\\]config\w*|omegaconf|jsonargparse|argparse\.py|hf_argparser\.py)"
)
# Files in which the other end of a connection is a process of the job.
_PEERS = re.compile(r"multiprocessing[/\\](?:connection|managers|queues)|torch[/\\]distributed")
# Files and functions in which ranks meet at the start.
_RENDEZVOUS = re.compile(
    r"elastic[/\\]rendezvous|jax[/\\]_src[/\\]distributed"
    r"|\bin (?:init_process_group|_store_based_barrier|next_rendezvous|_create_c10d_store)\b"
)
# A text that quotes code may contain any word. Only these classes are taken from it.
_CLASSES_IN_QUOTED_CODE = (
    "device_memory", "wrong_device", "wrong_shape", "checkpoint_mismatch", "assertion", "device_error",
    "missing_module",
)  # fmt: skip
# Types that decide the class, whatever words the text contains. Each also matches a row of `_TYPES`.
_CERTAIN_TYPES = re.compile(
    r"(?:^|\.)(?:FileNotFoundError|ModuleNotFoundError|PermissionError|KeyboardInterrupt|MemoryError|OutOfMemoryError"
    r"|\w*Config\w*(?:Error|Exception)|UnicodeDecodeError|UnidentifiedImageError|JSONDecodeError|GatedRepoError"
    r"|RepositoryNotFoundError)$"
)
_RAISES = re.compile(r"(?:^|\n)\s*raise\b[^\n]*(?:\n[\s^~]*)?$")  # the last line of code is a `raise`
# Classes of exceptions that often cause others while they are handled.
_ROOTS = ("device_memory", "host_memory", "host_limit", "disk_full", "device_error", "assertion", "missing_module")
_MAX_CHARACTERS = 2 * MAX_TEXT  # of an exception: its type, and the first lines of its message

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
_CLASS_BY_ERRNO = {
    **dict.fromkeys((errno.EPERM, errno.EACCES, errno.EROFS), "permission"),
    **dict.fromkeys((errno.ENOENT, errno.ENOTDIR, errno.EISDIR), "missing_file"),
    **dict.fromkeys((errno.ENOSPC, errno.EDQUOT), "disk_full"),
    **dict.fromkeys((errno.EADDRINUSE, errno.EADDRNOTAVAIL), "rendezvous"),
    **{errno.ENOMEM: "host_memory", errno.EMFILE: "host_limit", errno.EPIPE: "connection_lost"},
    # File systems, local or over a network, and clients of services return these.
    **dict.fromkeys((errno.EIO, errno.EDEADLK, errno.ECOMM, errno.ESTALE, errno.EREMOTEIO, errno.ENOTCONN), "storage"),
    **dict.fromkeys((errno.ENETUNREACH, errno.EHOSTUNREACH, errno.ETIMEDOUT, errno.ECONNREFUSED), "storage"),
}


def class_of(item: Raised) -> str:
    """Return the class of one exception, without its causes, by the first rule that knows it; else `code_error`."""
    from_certain_to_vague = (
        _by_tensors, _by_peers, _by_shared_memory, _by_errno, _by_certain_type, _by_text, _by_type, _by_parser,
    )  # fmt: skip
    kind = next(filter(None, (rule(item) for rule in from_certain_to_vague)), "code_error")
    if kind == "connection_lost" and _SERVICE.search(f"{item.type}\n{item.frames}"):
        return "storage"  # the connection was to a service, and not to a rank
    if kind in ("connection_lost", "collective_timeout") and _RENDEZVOUS.search(item.frames):
        return "rendezvous"
    return kind


def _by_tensors(item: Raised) -> str | None:
    """Judge a text that names the type of a tensor and the type that it should have."""
    are_on_gpu = [match["gpu"] is not None for match in _TENSOR.finditer(_first_line(item))]
    if len(are_on_gpu) != 2:
        return None
    return "wrong_shape" if are_on_gpu[0] == are_on_gpu[1] else "wrong_device"


def _by_peers(item: Raised) -> str | None:
    """Judge a connection between processes of the job."""
    if _PEERS.search(item.frames) and item.type.endswith("EOFError"):
        return "connection_lost"
    if _PEERS.search(item.frames) and item.type.endswith("gaierror"):
        return "rendezvous"
    return None


def _by_shared_memory(item: Raised) -> str | None:
    """Judge a full /dev/shm, which has the errno of a full disk."""
    first_line = _first_line(item)
    return "host_limit" if "/dev/shm" in first_line and "No space" in first_line else None


def _by_errno(item: Raised) -> str | None:
    """Judge an OSError by its errno."""
    match = _ERRNO.match(_first_line(item))
    return _CLASS_BY_ERRNO.get(int(match[1])) if match else None


def _by_certain_type(item: Raised) -> str | None:
    """Judge a type that no text can overrule."""
    return _by_type(item) if _CERTAIN_TYPES.search(item.type) else None


def _by_text(item: Raised) -> str | None:
    """Judge the first line of the text, or its first paragraph if the first line announces the reason or says nothing.

    NCCL gives its reason in the second line. A colon at the end of the first line announces one. Other libraries begin
    with an empty line.
    """
    first_line, _, rest = item.text[:_MAX_CHARACTERS].partition("\n")
    paragraph = " ".join([first_line, *rest.strip().partition("\n\n")[0].split("\n")])
    is_announced = "NCCL" in first_line or first_line.endswith(":")
    for text in (paragraph,) if is_announced else (first_line, paragraph):
        kind = _first_class(TEXTS, text)
        if kind and (not item.quotes_code or kind in _CLASSES_IN_QUOTED_CODE):
            return kind
    return None


def _by_type(item: Raised) -> str | None:
    """Judge the type, if nothing more certain is known."""
    return _first_class(_TYPES, item.type)


def _by_parser(item: Raised) -> str | None:
    """Judge an exception whose innermost frame is in a parser of arguments or configurations."""
    return "configuration" if _CONFIGURATION.search(item.frames.rpartition('File "')[2]) else None


def root_of(item: Raised) -> tuple[str, Raised]:
    """Return the class and the exception of the link of a chain that explains the others.

    A cause explains what was raised from it. An exception that was only being handled may be a coincidence: a file
    that was looked for first. It counts only if the last exception says little: if it is a `code_error` or a
    consequence, and the handled one is in `_ROOTS`; or if it is a `code_error` that the job raised by `raise`.
    """
    kind = class_of(item)
    chain = [(class_of(link), link) for link in item.causes if not link.is_wrapper]
    if item.is_wrapper and chain:
        kind, item = chain[-1]
    informative = [(link_kind, link) for link_kind, link in chain if link_kind != "code_error"]
    roots = [(link_kind, link) for link_kind, link in informative if link_kind in _ROOTS]
    if informative and not item.is_handling:
        return informative[0]
    if roots and (kind == "code_error" or kind in CONSEQUENCES):
        return roots[0]
    if informative and kind == "code_error" and _RAISES.search(item.frames):
        return informative[0]
    return kind, item


def _first_line(item: Raised) -> str:
    return item.text[:_MAX_CHARACTERS].partition("\n")[0]


def _first_class(table: Rules, text: str) -> str | None:
    """Return the class of the first row that matches the text."""
    return next((kind for kind, pattern in table if pattern.search(text)), None)
