"""Every way in which the network between hosts can fail, with the expected finding: rows that tests judge.

`docs/hangs.md` is generated from these rows. Unless a row says otherwise, each host has one rank, and all ranks wait in
a collective. A pair such as `ab` is of node-a and node-b, and data is under way from the first to the second only.
"""

from __future__ import annotations

from dataclasses import replace

from tests.build import flight, pending, rank_state, snapshot, waiting
from tests.detectors.network.hosts import EIGHT, ETH1, NODES, address, answered, connection, mesh, window, with_tcp
from tests.detectors.network.lost_hosts import HOSTS
from tests.detectors.stalls import Row, outside

UNKNOWN, NOBODY = "unknown, warning, nobody", "network_stall, critical, nobody"
NODE_A, NODE_B, PAIR = (f"network_stall, critical, node-{hosts}" for hosts in ("a", "b", "a and node-b"))
RING, STAR = ("ab", "bc", "cd", "da"), ("ab", "ac", "ad")
HALVES = ("ab", "ac", "db", "dc")


def stall(windows, *ranks, **changes):
    """Return a job on these hosts whose ranks wait in a collective, but for `ranks`."""
    windows = tuple(windows)
    known = {r.rank: r for r in ranks}
    others = [waiting(n, host=w.host, world_size=len(windows)) for n, w in enumerate(windows)]
    return replace(snapshot(*(known.get(r.rank, r) for r in others), hardware=windows), **changes)


def cut(*pairs, hosts=NODES, links=None, silent=None, **changes):
    """Return a job whose data over these pairs times out."""
    return stall(mesh(pairs, hosts, links, silent=silent), **changes)


def passing_again(*pairs):
    """Return a job whose packets pass again, while data waits for its next timeout."""
    return stall(replace(window, recent=window.now.tcp) for window in mesh(pairs, silent=()))


def unasked(windows):
    """Return the hosts before they ask their peers for an answer."""
    return [answered(window) for window in windows]


def first_link(**changes):
    """Return a job of which the first host's connections to the second differ."""
    windows = mesh()
    peers = (connection(0, address("node-b"), **changes), *windows[0].now.tcp.peers[1:])
    return stall([with_tcp(windows[0], peers=peers), *windows[1:]])


def short_packets():
    """Return a job whose data over one pair timed out once more, although the two answered each other."""
    recent = mesh(("ab",), silent=(), timeouts=4)
    return stall(replace(w, recent=r.now.tcp) for w, r in zip(mesh(("ab",), silent=()), recent, strict=True))


ONE_CUT = unasked(mesh(("ab",)))
REFUSES = mesh(("ab",), silent=("ab", "ac", "bc", "cd"))
NOT_KNOWN = "whether the two reach other hosts is not known"
AT_FAULT = "both reach other hosts, so the path between them is at fault"
EVERYBODY = [a + b for a in "abcd" for b in "abcd"]
CUTS = (
    *(Row(f"no data passes between two of {len(hosts)} hosts, {way}", "network_stall, critical, node-b and node-c",
          cut(*pairs, hosts=hosts), f"no data passes between node-b and node-c … {AT_FAULT}")
      for way, pairs, hosts in (("both ways", ("bc", "cb"), NODES[:3]), ("both ways", ("bc", "cb"), EIGHT),
                                ("one way", ("bc",), NODES), ("the other way", ("cb",), NODES))),
    Row("no data passes between the only two hosts of a job", PAIR, cut("ab", "ba", hosts=NODES[:2]),
        "there are no other hosts, so nothing shows which of the two"),
    Row("no data passes between two hosts, one of which has no other peer", PAIR, cut("ab", links=("ab", "bc", "cd"))),
    Row("no data passes between two neighbours in a ring", PAIR, cut("ab", links=RING)),
    Row("a pair is cut, and nobody asked whether its hosts reach others", NOBODY, stall(ONE_CUT),
        NOT_KNOWN, "if only one rank sends, a lost host looks like one cut pair"),
    Row("a pair is cut, and a firewall drops the questions between all hosts", NOBODY, cut("ab", silent=EVERYBODY),
        NOT_KNOWN),
    Row("a pair is cut, and only one of its hosts was asked", NOBODY, stall([*mesh(("ab",))[:1], *ONE_CUT[1:]]),
        NOT_KNOWN),
    Row("a pair is cut, and one host refuses questions, but its own questions are answered", PAIR,
        stall([*REFUSES[:2], mesh(("ab",))[2], REFUSES[3]])),
    Row("a pair is cut, and one host refuses questions, and its own are not answered", NOBODY,
        stall([*unasked(REFUSES[:2]), *REFUSES[2:]])),
    Row("the hosts of a pair answer each other, and their data times out again", PAIR, short_packets(),
        "short packets pass, so an MTU on the path"),
    Row("packets of a pair pass again, and data waits for its next timeout", UNKNOWN, passing_again("ab")),
    Row("packets of a host pass again, and data waits for its next timeout", UNKNOWN, passing_again(*STAR)),
    *(Row(f"a host reaches nobody: {how}", NODE_A, cut(*pairs, links=links, silent=STAR))
      for how, pairs, links in (
          ("all send to all", (*STAR, "ba", "ca", "da"), None), ("a ring", ("ab", "da"), RING),
          ("a ring, and other connections are open", ("ab", "da"), None), ("a star", STAR, STAR),
          ("only it sends", ("ab",), None), ("only one sends to it", ("ba",), None))),
    Row("a pair is cut, and data between another pair times out for the first time", NODE_A,
        stall([*ONE_CUT[:3], unasked(mesh(("da",), timeouts=1))[3]])),
    Row("a host reaches only one of three others", NOBODY, cut("ab", "ac")),
    Row("two of eight hosts reach only each other", PAIR, cut(*(a + b for a in "ab" for b in "cdefgh"), hosts=EIGHT)),
    *(Row(f"several pairs are cut: {how}", NOBODY, cut(*pairs, links=links, silent=silent or pairs),
          "node-a and node-b") for how, pairs, links, silent in (
          ("two halves", HALVES, None, None), ("two halves, and one rank sends", ("ab",), None, HALVES),
          ("two halves of a ring", ("ab", "cd"), RING, None), ("two pairs", ("ab", "cd"), None, None),
          ("a triangle", ("ab", "ac", "bc"), None, None), ("two leaves of a star", ("ab", "ac"), STAR, None))),
    Row("a pair is cut, and the other hosts are one collective ahead, by flight records", PAIR,
        stall(mesh(("ab", "ba")), *(outside(n, "backward", host=host) for n, host in enumerate(NODES)),
              flights={n: flight(pending(301 if n < 2 else 302)) for n in range(4)})),
    Row("a pair is cut, and one rank computes", "compute_hang, warning, rank 2",
        stall(mesh(("ab", "ba")), outside(2, host="node-c"))),
    Row("a pair is cut, and one host has no agent", UNKNOWN,
        snapshot(*(waiting(n, host=host) for n, host in enumerate(NODES[:3])), hardware=mesh(("ab", "ba"))[:3])),
    Row("a pair of another job is cut", UNKNOWN,
        stall(with_tcp(w, peers=[replace(p, job_id="another") for p in w.now.tcp.peers]) for w in mesh(("ab", "ba")))),
    *(Row(f"all data is acknowledged, between {len(hosts)} hosts", UNKNOWN, cut(hosts=hosts))
      for hosts in (NODES, NODES[:2])),
    *(Row(f"data waits, but is not known to time out again: {what}", UNKNOWN, first_link(**changes))
      for what, changes in (
        ("a slow reader", {"send_queue_bytes": 3_000_000, "receive_queue_bytes": 3_000_000,
                           "retransmitted_segments": 40}),
        ("much of it is lost, and it moves", {"retransmitted_segments": 9000}),
        ("one packet was lost", {"timeouts": 1}),
        ("an older agent, which does not report it", {"timeouts": 5, "num_timeouts": None, "num_waiting": None}))),
    Row("data to storage times out", UNKNOWN,
        stall(with_tcp(w, peers=(connection(0, "10.9.9.9", 5),)) for w in mesh())),
    Row("data to an address that every host has times out", UNKNOWN, stall(
        with_tcp(w, peers=(*w.now.tcp.peers, connection(n, "127.0.0.1", 5)),
                 addresses=(*w.now.tcp.addresses, "127.0.0.1")) for n, w in enumerate(mesh())),
        note="it is loopback, or a bridge for containers"),
)  # fmt: skip


def spare(device="eno1", transport="tcp", pci="0000:05:00.0", used=True):
    """Return a job on hosts with another interface, which is down on node-b; the used interfaces may be unknown."""
    nic = replace(ETH1, device=device, transport=transport, pci=pci)
    return stall(_with_nic(host, nic, up=host.host != "node-b", used=used) for host in mesh())


def _with_nic(host, nic, up, used):
    before = replace(host.before, nics=(*host.before.nics, nic))
    now = replace(host.now, nics=(*host.now.nics, replace(nic, up=up)), tcp=host.now.tcp if used else None)
    return replace(host, before=before, now=now)


def down(host="node-b", seconds=1.2, *ranks, used=True, **changes):
    """Return a job within its lease that waits in a collective; the link of a host is down."""
    windows = [window(h, {}, up=h != host, **(changes if h == host else {})) for h in NODES]
    windows = windows if used else [with_tcp(w, devices=()) for w in windows]
    inside = [waiting(n, seconds, host=h, overdue_seconds=0.0) for n, h in enumerate(NODES)]
    return stall(windows, *inside, *ranks)


LINKS = (
    Row("the link of a host is down, within all leases", NODE_B, down(),
        "every rank is inside a collective … the link of eth1 is down, and its ranks use it"),
    Row("the link of a host has been down for more than a minute", NODE_B, down(seconds=70.0, before_up=False)),
    Row("a link is down, and the ranks have been in their collective for 0.4 s", "quiet", down(seconds=0.4)),
    Row("a link is down, and one rank computes within its lease", "quiet",
        down("node-b", 1.2, rank_state(3, host="node-d"))),
    Row("all links are up, and the ranks wait within their lease", "quiet", down("nobody")),
    Row("the link that is down was never up", "quiet", down(before_up=False, worked=frozenset())),
    Row("a link is down that the ranks do not use", "quiet", down(used=False)),
    Row("a link is down, and one rank computes past its lease", "compute_hang, warning, rank 2",
        stall([window(h, {}, up=h != "node-b") for h in NODES], outside(2, host="node-c"))),
    Row("the links of two hosts are down, past the lease", UNKNOWN, stall(window(h, {}, up=False) for h in NODES[:2])),
    Row("an interface goes down that nobody uses", UNKNOWN, spare()),
    Row("the bridge of a container goes down", UNKNOWN, spare("docker0", pci=None)),
    Row("an RDMA port goes down", NODE_B, spare("mlx5_0:1", "infiniband"), "the link of mlx5_0:1 is down",
        "no socket shows that ranks use it"),
    Row("a physical link goes down, and the used interfaces are unknown", NODE_B, spare(used=False),
        "the link of eno1 is down"),
    Row("a bridge goes down, and the used interfaces are unknown", UNKNOWN, spare("docker0", pci=None, used=False)),
)  # fmt: skip
SECTIONS = {"No data passes between hosts": CUTS, "A link goes down": LINKS, "A host does not answer": HOSTS}
