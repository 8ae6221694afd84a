"""Report a job whose ranks died of broken connections: a host that does not answer, or a connection that broke.

If no rank and no host failed before, a connection was reset. The two ranks at its ends notice the reset at the same
moment. The other ranks lose their connections only when one of these two has ended. So the first two victims are the
pair, unless the addresses in their errors belong to other hosts. If the job has more than two ranks and the pair is on
two hosts, the addresses must prove the pair. If the pair is not known, no host is named. No rank is at fault.
"""

from __future__ import annotations

from collections.abc import Mapping

from zmon.detectors.endings.job_end import JobEnd, with_last_words
from zmon.detectors.network import answering_hosts
from zmon.detectors.new_finding import drain
from zmon.detectors.wording import ranks_on, verb
from zmon.format import counted, listed
from zmon.job.aborts import hung_ranks
from zmon.job.connection_errors import is_timeout, peer_address, waited_at_store
from zmon.job.facts import RESET_SPREAD_SECONDS, before, began_to_end, gone_seconds
from zmon.job.rank_end import Way
from zmon.schema.evidence import StallEvidence
from zmon.schema.finding import Finding
from zmon.schema.rank import RankState


def lost_host(end: JobEnd) -> Finding | None:
    """Return a finding if all watched ranks are gone, some as victims, and the agents of all other ranks are silent."""
    unwatched = end.snapshot.unwatched
    if not unwatched or end.living or not end.ended_as(Way.DISCONNECTED):
        return None
    silent = {agent.host: agent.silent_seconds for agent in end.snapshot.agents}
    if not all(silent.get(r.host, 0.0) >= end.limits.lost_seconds for r in unwatched):
        return None
    hosts = sorted(_lost_hosts(end, silent))
    if not hosts:
        return _unwatched_culprit(end)
    lost = [r for r in unwatched if r.host in hosts]
    return end.finding(
        cause="host_lost",
        summary=f"{', '.join(hosts)} {verb(hosts, 'does', 'do')} not answer, and the {len(end.snapshot.ranks)} ranks "
        f"elsewhere died of broken connections at step {end.snapshot.ranks[0].step}",
        detail=f"Is the host up (`ping {hosts[0]}`, its console or BMC)? Take it out ({drain(hosts[0])}) and start the "
        "job elsewhere.",
        confidence=0.8,
        culprits=lost,
        evidence=StallEvidence(hosts=tuple(hosts)),
    )


def _lost_hosts(end: JobEnd, silent: Mapping[str | None, float]) -> set[str]:
    """Return the silent hosts that may be down: they answer no other host.

    A host does not count if its agent fell silent long before the job's last step: its ranks still trained then.
    """
    snapshot = end.snapshot
    last_step = min(max(r.step_seconds, gone_seconds(r)) for r in snapshot.ranks)
    longest = max(end.limits.lost_seconds, *(r.lease_seconds or 0.0 for r in snapshot.ranks))
    hosts = {r.host for r in snapshot.unwatched} - answering_hosts(snapshot)
    return {host for host in hosts if silent[host] - last_step <= longest}


def _unwatched_culprit(end: JobEnd) -> Finding:
    """Return the finding about ranks whose culprit no agent reports, on hosts that are probably up."""
    victims = end.ended_as(Way.DISCONNECTED)
    unwatched = end.snapshot.unwatched
    hosts = sorted({r.host for r in unwatched})
    return end.finding(
        cause="unknown",
        summary=f"{counted(len(victims), 'rank')} died of broken connections at step {victims[0].step}, and the agents "
        f"of {listed(hosts, 4)} do not answer: {counted(len(unwatched), 'rank')} there may have failed first",
        detail=f"Read the end of the job's log on {hosts[0]}, and start the agent there again. Once it answers, it "
        "reports how its ranks ended.",
        confidence=0.3,
        evidence=with_last_words(StallEvidence(), victims[0]),
    )


def connection_lost(end: JobEnd) -> Finding | None:
    """Return a finding about the connection that broke first, or about the victims if nothing shows which one did."""
    victims = end.ended_as(Way.DISCONNECTED)
    if not victims or end.snapshot.unwatched:
        return None  # the culprit may be a rank of the silent agent
    if end.living and end.seconds_ago < end.limits.rest_seconds:
        return None  # the culprit is about to end
    if any(r.alive for r in hung_ranks(end.snapshot.ranks)):
        return None  # the rules about hangs name it
    if end.snapshot.missing or all(r.last_words is None or is_timeout(r.last_words) for r in victims):
        return _unexplained_loss(end, victims)
    return _broken_connection(end, victims)


def _unexplained_loss(end: JobEnd, victims: list[RankState]) -> Finding:
    """Return a finding that names nobody: all victims gave up waiting, or a rank that zmon does not see ended first."""
    if end.snapshot.missing:
        how, reason = "of broken connections", "because a rank that zmon does not see ended first"
    else:
        how, reason = "of a timeout in a collective", "no rank is known to have hung"
    if all(waited_at_store(r.last_words) for r in victims):
        how = f"of a timeout at the store ({_error(victims[0])})"
    return end.finding(
        cause="unknown",
        summary=f"{_victims_text(end, victims)} died {how} at step {victims[0].step}, {reason}",
        detail="Look for the first error in the job's log, and at hosts whose ranks zmon does not see.",
        confidence=0.3,
        evidence=with_last_words(StallEvidence(), victims[0]),
    )


def _broken_connection(end: JobEnd, victims: list[RankState]) -> Finding:
    """Return a finding about a connection that broke, with the two ranks at its ends if they are known."""
    first = victims[0]
    pair = _pair(end, victims)
    hosts = tuple(sorted({r.host for r in pair}))
    evidence = with_last_words(StallEvidence(hosts=hosts), first)
    what_broke = "a connection broke"
    remark = f", and it is not known between which ranks (first error: {ranks_on(victims[:1])})"
    if pair:
        what_broke = f"the connection between {ranks_on(pair[:1])} and {ranks_on(pair[1:])} broke"
        remark = ""
        evidence = evidence.updated(StallEvidence(pair=tuple(r.rank for r in pair)))
    where = " and ".join(hosts) or "the hosts of the ranks with the first errors"
    return end.finding(
        cause="connection_lost",
        summary=f"{what_broke} at step {first.step}{remark}: {_error(first)}; no rank had failed before, and "
        f"{_victims_text(end, victims)} died of it",
        detail="No rank is at fault. Look for what ended the connection: a firewall or NAT that forgets connections "
        f"(`conntrack -L`, its log), a restarted switch or interface (`dmesg -T | grep -i link` on {where}), `ss -K`, "
        f"or a peer address that another machine has too ({_peer_address(first) or 'see the first error'}). Restart "
        "the job from its last checkpoint.",
        confidence=0.8 if pair else 0.5,
        hosts=hosts,
        evidence=evidence,
    )


def _victims_text(end: JobEnd, victims: list[RankState]) -> str:
    """Return how many of the ranks are victims; a single rank by its number."""
    num_ranks = len(end.snapshot.ranks)
    if len(victims) < num_ranks:
        return f"{len(victims)} of {num_ranks} ranks"
    return f"all {num_ranks} ranks" if num_ranks > 1 else ranks_on(victims)


def _error(state: RankState) -> str:
    """Return the first line of the rank's error, or of the root cause if only the root cause names a peer."""
    words = state.last_words
    if words is None:
        return ""
    is_wrapped = peer_address(words.message) is None and peer_address(words.root) is not None
    return (words.root if is_wrapped else words.message).partition("\n")[0][:160]


def _pair(end: JobEnd, victims: list[RankState]) -> list[RankState]:
    """Return the two ranks whose connection broke first; empty if nothing proves which two."""
    if len(victims) < 2:
        return []
    first, second, *others = victims
    pair = sorted((first, second), key=lambda r: r.rank)
    if len(victims) == 2 and len(end.snapshot.ranks) == 2:  # the pair, unless the addresses belong to other hosts
        return [] if _are_peers(end, first, second) is False else pair
    if end.living:
        return []  # a living rank may be at one of the ends
    are_times_exact = all(r.last_words_seconds is not None for r in victims)
    spread = RESET_SPREAD_SECONDS if are_times_exact else 0.0
    if before(began_to_end(first), began_to_end(second), spread):
        return []  # the second rank lost its connection because the first had ended
    if others and not before(began_to_end(second), began_to_end(others[0]), spread):
        return []  # a third rank may have noticed the reset at the same moment
    are_peers = _are_peers(end, first, second)
    if are_peers is None:  # without addresses, the times prove only a pair on one host
        are_peers = are_times_exact and first.host == second.host
    return pair if are_peers else []


def _are_peers(end: JobEnd, first: RankState, second: RankState) -> bool | None:
    """Return True if the error of each rank names an address of the other rank's host; None if that is not known.

    The connections of dead ranks are gone, so earlier samples of the hosts count as well.
    """
    hosts_of_address: dict[str, set[str]] = {}
    for window in end.snapshot.hardware:
        for tcp in filter(None, (window.before.tcp, window.recent, window.now.tcp)):
            for address in tcp.addresses:
                hosts_of_address.setdefault(address, set()).add(window.host)
    addresses = [_peer_address(r).rpartition(":")[0] for r in (first, second)]  # without their ports
    peers = [hosts_of_address.get(address, set()) for address in addresses]
    if any(len(hosts) != 1 for hosts in peers):
        return None
    return peers == [{second.host}, {first.host}]


def _peer_address(state: RankState) -> str:
    """Return the address and port of the peer that the rank's error names; "" if it names none."""
    words = state.last_words
    return (words and (peer_address(words.message) or peer_address(words.root))) or ""
