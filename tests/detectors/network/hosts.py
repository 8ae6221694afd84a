"""Build hosts whose ranks send to each other over TCP, for the tests of the network."""

from dataclasses import replace

from tests.build import rank_state, snapshot
from zmon.schema.host import HostSample, HostWindow, NicSample, TcpPeer, TcpSample

NODES = ("node-a", "node-b", "node-c", "node-d")
EIGHT = tuple(f"node-{letter}" for letter in "abcdefgh")
MB = 1e6
ETH1 = NicSample("eth1", "tcp", up=True, speed_bytes_per_second=None, received_bytes=0, transmitted_bytes=0, errors={})
IDLE = {  # the fields of a connection whose queues are empty
    "send_queue_bytes": 0, "receive_queue_bytes": 0, "retransmitted_segments": 0, "delivery_bytes_per_second": None,
    "round_trip_seconds": None,
}  # fmt: skip


def number(host):
    """Return the place of a host: node-a is 0."""
    return ord(host[-1]) - ord("a")


def address(host):
    return f"10.0.0.{number(host) + 1}"


def connection_samples(rank, peer, rate, num_bytes=2 * MB):
    """Return the connection of a rank to a peer before and after it sent some bytes at this rate."""
    before = TcpPeer("job", rank, peer, num_sockets=2, **IDLE, acked_bytes=1_000_000, busy_seconds=3.0)
    return before, replace(before, acked_bytes=1_000_000 + round(num_bytes), busy_seconds=3.0 + num_bytes / rate)


def window(host, sends, up=True, before_up=True, worked=frozenset({"eth1"}), num_bytes=2 * MB):
    """Return a host that sent to its peers; `sends` has the rate in bytes per second, by peer."""
    pairs = [connection_samples(number(host), address(peer), rate, num_bytes) for peer, rate in sends.items()]
    now = TcpSample(0, tuple(after for _, after in pairs), (address(host),), ("eth1",))
    return HostWindow(
        host, 60.0, HostSample(nics=(replace(ETH1, up=before_up),)), HostSample(nics=(replace(ETH1, up=up),), tcp=now),
        worked, recent=replace(now, peers=tuple(before for before, _ in pairs)),
    )  # fmt: skip


def cluster(hosts=NODES, slow=(), slow_pairs=(), rate=40 * MB, slow_rate=4 * MB):
    """Return hosts that all send to each other. Traffic of the hosts in `slow`, and between `slow_pairs`, is slow."""

    def rate_between(host, peer):
        return slow_rate if {host, peer} & set(slow) or {host, peer} in map(set, slow_pairs) else rate

    return [window(h, {p: rate_between(h, p) for p in hosts if p != h}) for h in hosts]


def mesh(cut=(), hosts=NODES, links=None, timeouts=5, silent=None):
    """Return hosts with connections between all of them, or the given pairs; data over the cut pairs times out.

    A pair is two letters, such as `ab`; data is under way from the first to the second only. Hosts ask each other for
    an answer; the silent pairs get none, by default those that are cut.
    """
    letters = [host[-1] for host in hosts]
    pairs = links or [a + b for a in letters for b in letters if a < b]
    windows = [_host_of_mesh(host, [pair for pair in pairs if host[-1] in pair], cut, timeouts) for host in hosts]
    no_answer = {frozenset(each) for each in (cut if silent is None else silent)}
    return [answered(window, no_answer) for window in windows]


def answered(window, silent=None):
    """Return the host after it asked its peers for an answer; without `silent`, it asked nobody."""
    peers = {peer.peer for peer in window.now.tcp.peers}
    letter = {address(host): host[-1] for host in EIGHT}
    answers = (
        {peer: frozenset((window.host[-1], letter[peer])) not in silent for peer in peers}
        if silent is not None
        else None
    )
    return with_tcp(window, answers=answers)


def with_tcp(window, **changes):
    """Return the host with another sample of its sockets."""
    return replace(window, now=replace(window.now, tcp=replace(window.now.tcp, **changes)))


def _host_of_mesh(host, pairs, cut, timeouts):
    before = _mesh_window(host, pairs, (), 0).now
    return replace(_mesh_window(host, pairs, cut, timeouts), before=before, recent=before.tcp)


def _mesh_window(host, pairs, cut, timeouts):
    peers = [f"node-{pair.replace(host[-1], '')}" for pair in pairs]
    connections = (
        connection(number(host), address(peer), timeouts if host[-1] + peer[-1] in cut else 0) for peer in peers
    )
    tcp = TcpSample(0, tuple(connections), (address(host),), ("eth1",))
    sample = HostSample(nics=(ETH1,), tcp=tcp)
    return HostWindow(host, 60.0, sample, sample, frozenset({"eth1"}))


def connection(rank, peer, timeouts=0, **changes):
    """Return two connections to a peer; if data times out, one of them has data that was sent again."""
    waits = {"num_waiting": 1, "send_queue_bytes": 70_000} if timeouts else {"num_waiting": 0}
    fields = IDLE | {"num_timeouts": timeouts, "retransmitted_segments": timeouts, **waits}
    return TcpPeer("job", rank, peer, num_sockets=2, **(fields | changes))


def job(windows):
    """Return a job with one rank on each of these hosts."""
    windows = list(windows)
    return snapshot(*(rank_state(i, host=w.host) for i, w in enumerate(windows)), hardware=windows)
