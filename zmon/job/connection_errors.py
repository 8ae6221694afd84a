"""Recognize the errors of gloo, NCCL and c10d in the last words of a rank: a broken connection, a timeout, no meeting.

The wording alone proves nothing, because a storage client loses connections too. Such an error counts only if it was
raised inside a collective, or if its text comes from one of the three libraries.
"""

from __future__ import annotations

import re

from zmon.schema.rank import LastWords, RankState

_NETWORK_TYPES = ("torch.distributed.DistNetworkError", "torch.distributed.DistBackendError")
_STORE_ERROR = "torch.distributed.DistStoreError"
_STORE_TYPES = ("torch.distributed.DistNetworkError", _STORE_ERROR)
# File names, classes and phrases of the libraries (gloo/transport/tcp/pair.cc; ProcessGroupNCCL.cpp, socket.cpp and
# TCPStore.cpp of torch).
_LIBRARY = re.compile(
    r"gloo[/\\]|gloo connectfullmesh|process ?group ?(nccl|gloo|ucc|mpi)|\bnccl|\[?c10d\b|tcpstore"
    r"|torch.csrc.distributed|remote worker (crashing|hanging)|closed by peer \[|error \[[\w.:%]+\]:\d+"
    r"|client socket|clients joined|dist(network|backend|store)error|monitoredbarrier"
    r"|^wait timeout$",  # all that a FileStore tells
    re.IGNORECASE | re.MULTILINE,
)
# The other end of a connection is gone.
_BROKEN = re.compile(
    r"connection (reset|closed|refused|was aborted|was likely closed)|caused connection abort|broken pipe"
    r"|(read|write|socket) error|remote process (has )?(exited|terminated)|peer .*(closed|dead)"
    r"|communicator was aborted|no route to host|network is unreachable|(recvvalue|sendbytes|recvbytes) failed"
    r"|failed to recv|nccl(systemerror|remoteerror)|unhandled system error",
    re.IGNORECASE,
)
# The wait for another rank took too long.
_TIMED_OUT = re.compile(
    r"application timeout|timed out waiting|(read|write|socket) timeout|connection timed out"
    r"|collective operation timeout|operation timed out|wait timeout|timed out after|failed to pass monitoredbarrier",
    re.IGNORECASE,
)
_GPU_FAULT = re.compile(r"unhandled cuda error|nccl(unhandledcuda|internal|invalid)\w*", re.IGNORECASE)
# A rank did not reach the store or the other ranks.
_NOT_MET = re.compile(
    r"client socket has (timed out|failed)|trying to connect to|clients joined|waiting for clients|connectfullmesh"
    r"|connect(ion)? (refused|timed out)|wait timeout|rendezvous",
    re.IGNORECASE,
)
_AT_STORE = re.compile(r"wait timeout", re.IGNORECASE)  # TCPStore.cpp, FileStore.cpp, HashStore.cpp
# The ranks that an error names as missing, as numbers in their group: those that monitored_barrier lists
# (ProcessGroupGloo.cpp), and the one whose address a new group of gloo waits for at the store.
_MISSING_RANKS = re.compile(
    r"\branks? (\d+(?:, \d+)*) failed to pass monitoredbarrier|keys: \S+//cpu//\d+/(\d+)\b", re.IGNORECASE
)
_ADDRESS = re.compile(r"\(([\w.:%-]+), ?(\d+)\)|\[([\w.:%]+)\]:(\d+)|connect to ([\w.-]+):(\d+)")


def is_broken_connection(words: LastWords) -> bool:
    """Return True if this is the error of a collective whose peer is gone, or which waited in vain."""
    text = words.text
    if _GPU_FAULT.search(text):
        return False  # NCCL reports a fault of the rank's own GPU in the same way
    if words.type in _NETWORK_TYPES or any(name in words.root for name in _NETWORK_TYPES):
        return True
    if not _BROKEN.search(text) and not _TIMED_OUT.search(text):
        return False
    return _is_in_collective(words) or words.type == _STORE_ERROR or _LIBRARY.search(text) is not None


def is_timeout(words: LastWords | None) -> bool:
    """Return True if the rank waited for others in vain, in a collective or at a store, with no broken connection."""
    return words is not None and is_broken_connection(words) and _TIMED_OUT.search(words.text) is not None


def waited_at_store(words: LastWords | None) -> bool:
    """Return True if the rank waited in vain for a key that another rank sets. No count shows which rank that is."""
    return words is not None and is_timeout(words) and _AT_STORE.search(words.text) is not None


def named_ranks(words: LastWords | None) -> frozenset[int]:
    """Return the ranks that a timeout names as missing, as numbers in their group; empty if it names none."""
    if words is None or not is_timeout(words):
        return frozenset()
    lists = (of_barrier or of_store for of_barrier, of_store in _MISSING_RANKS.findall(words.text))
    return frozenset(int(number) for numbers in lists for number in numbers.split(", "))


def could_not_meet(state: RankState) -> bool:
    """Return True if the rank ended because it did not reach the store or the other ranks at its start."""
    words = state.last_words
    if words is None or state.steps or state.activity != "init":
        return False
    if words.type in _STORE_TYPES or any(name in words.root for name in _STORE_TYPES):
        return True
    return _NOT_MET.search(words.text) is not None and _LIBRARY.search(words.text) is not None


def peer_address(text: str) -> str | None:
    """Return the address and port that an error names, such as `10.0.0.1:29500`; None if it names none."""
    match = _ADDRESS.search(text)
    if match is None:
        return None
    host, port = (part for part in match.groups() if part is not None)
    return f"{host}:{port}"


def _is_in_collective(words: LastWords) -> bool:
    """Return True if the error was raised inside a collective.

    Boxes of older versions do not say so: there the type of the error decides, as collectives raise RuntimeError.
    """
    if words.in_collective is not None:
        return words.in_collective
    return words.type == "builtins.RuntimeError" or words.type.startswith("torch.")
