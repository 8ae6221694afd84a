"""Report ranks that never met: they did not reach the store or each other before the first step."""

from __future__ import annotations

import re

from zmon.detectors.endings.job_end import JobEnd, with_last_words
from zmon.detectors.wording import ranks_on, ranks_text
from zmon.job.connection_errors import peer_address
from zmon.job.rank_end import Way
from zmon.schema.evidence import StallEvidence
from zmon.schema.finding import Finding
from zmon.schema.rank import RankState

# TCPStore.cpp: the rank reached the store, and waited there for the others.
_WAITED_AT_STORE = re.compile(r"waiting for clients|clients joined|wait timeout", re.IGNORECASE)
# TCPStore.cpp, Utils.hpp: the rank reached the store and lost it. The host of the store had given up, or had died.
_LOST_STORE = re.compile(r"failed to recv|(recvvalue|recvbytes|sendbytes) failed|was likely closed", re.IGNORECASE)
# ProcessGroupGloo.cpp: the ranks reached the store, but not each other. Either rank may be the reason, or an address
# that an earlier launch left in the store.
_MESH = re.compile(r"connectfullmesh", re.IGNORECASE)
# Frames of torch/distributed/distributed_c10d.py in which a rank waits for the others; a signal leaves the stack.
_WAITING_FRAME = re.compile(r"\b(_new_process_group_helper|_store_based_barrier)\b")
# torch/distributed/rendezvous.py: here a rank connects to the store. Without a store of torchrun's agent, rank 0 hosts
# the store, and waits in the same function until the last rank has connected.
_CONNECTING_FRAME = re.compile(r"\b_create_c10d_store\b")

# In torch 2.13 the starts of one torchrun share a store. So a rank may read an address that an earlier start left there
# and connect to it in vain (dynamic_rendezvous.py, use_agent_store).
_RESTART_ADVICE = (
    " After a restart by torchrun, a rank may have read the address of a rank that is gone: if that repeats, set "
    "TORCH_DISABLE_SHARE_RDZV_TCP_STORE=1."
)


def rendezvous_failed(end: JobEnd) -> Finding | None:
    """Return a finding about the ranks that could not connect, and the address that they tried."""
    unmet = end.ended_as(Way.NOT_MET)
    if not unmet:
        return None
    refused = [r for r in unmet if not _says(r, _WAITED_AT_STORE) and not _says(r, _LOST_STORE)]
    if refused:
        return _refused_finding(end, refused)
    if end.living and end.seconds_ago < end.limits.rest_seconds:
        return None  # the others may have waited as well, and be about to give up
    return _waited_finding(end, unmet)


def _refused_finding(end: JobEnd, refused: list[RankState]) -> Finding:
    """Return the finding about ranks that could not connect, to the store or to each other."""
    address = _address(refused[0])
    is_mesh = any(_says(r, _MESH) for r in refused)
    is_everyone = len(refused) == len(end.snapshot.ranks) and not end.snapshot.unwatched
    who = f"{ranks_on(refused)} could not connect to {address or 'the other ranks'}"
    if is_everyone:
        who = f"all {len(refused)} ranks failed to connect to {address or 'each other'}"
    may_be_stale = is_mesh and any(r.restart_count for r in refused)
    advice = _RESTART_ADVICE if may_be_stale else ""
    culprits = [] if is_everyone or is_mesh else refused
    return _finding(end, refused, who, culprits, confidence=0.9, advice=advice)


def _waited_finding(end: JobEnd, waiting: list[RankState]) -> Finding:
    """Return the finding about ranks that reached the store, and waited there for other ranks in vain."""
    missing = end.snapshot.missing
    waiting_numbers = {r.rank for r in waiting}
    candidates = [r for r in end.snapshot.ranks if r.rank not in waiting_numbers and _may_be_absent(r)]
    absent = _without_host_of_store(candidates)
    if missing:
        who = f"{ranks_text(missing, end.snapshot.num_missing)} never appeared, "
        who += f"and {ranks_on(waiting)} waited for them in vain"
    elif absent:
        who = f"{ranks_on(waiting)} waited in vain for {ranks_on(absent)}, still in init"
    elif all(_says(r, _LOST_STORE) for r in waiting):
        who = f"{ranks_on(waiting)} lost the store while waiting for the other ranks"
    else:
        who = f"{ranks_on(waiting)} waited in vain for the other ranks"
    return _finding(end, waiting, who, culprits=[] if missing else absent, confidence=0.6)


def _finding(
    end: JobEnd, failed: list[RankState], who: str, culprits: list[RankState], confidence: float, advice: str = ""
) -> Finding:
    """Return the finding about ranks that failed to meet the others; `who` says which, `advice` ends the detail."""
    first = failed[0]
    missing = end.snapshot.missing
    host, _, port = (_address(first) or "ADDRESS:PORT").rpartition(":")
    evidence = StallEvidence(missing=missing, num_missing=end.snapshot.num_missing) if missing else StallEvidence()
    return end.finding(
        cause="rendezvous_failed",
        summary=f"the ranks never met: {who} ({_first_line(first)})",
        detail=f"On {first.host}: `getent hosts {host}`, `nc -vz {host} {port}`. Is MASTER_ADDR or --rdzv-endpoint the "
        "same on all hosts, does rank 0 (or the launcher) listen there, and does a firewall allow that port? With "
        f"several interfaces, set GLOO_SOCKET_IFNAME and NCCL_SOCKET_IFNAME.{advice}",
        confidence=confidence,
        culprits=culprits,
        hosts=sorted({r.host for r in failed}),
        evidence=with_last_words(evidence, first),
    )


def _address(state: RankState) -> str | None:
    """Return the address that the rank tried, such as `10.0.0.1:29500`; None if its error names none."""
    words = state.last_words
    return peer_address(words.text) if words is not None else None


def _says(state: RankState, text: re.Pattern[str]) -> bool:
    """Return True if the rank's last words have this text."""
    words = state.last_words
    return words is not None and text.search(words.text) is not None


def _may_be_absent(state: RankState) -> bool:
    """Return True if the rank may be one that the others waited for: in init, and not known to have waited as well."""
    return not _was_in(state, _WAITING_FRAME) and not state.steps and state.activity == "init"


def _without_host_of_store(absent: list[RankState]) -> list[RankState]:
    """Leave out a rank 0 that may have waited for the other absent ranks as the host of the store.

    The ranks that reached the store prove nothing against it: they could not have reached a store that it did not host.
    A rank 0 that alone is absent had nobody to wait for.
    """
    others = [r for r in absent if r.rank or not _was_in(r, _CONNECTING_FRAME)]
    return others or absent


def _was_in(state: RankState, frame: re.Pattern[str]) -> bool:
    """Return True if a signal left the rank's stack, and this frame is in it."""
    words = state.last_words
    return words is not None and words.kind == "signal" and frame.search(words.message) is not None


def _first_line(state: RankState) -> str:
    words = state.last_words
    return words.message.partition("\n")[0][:200] if words is not None else "no last words"
