"""A fake host with ranks and TCP connections, for tests of the source that reads them."""

from tests.processes import add_process
from zmon.agent.sources.sock_diag import Connection, Dump
from zmon.agent.sources.tcp import TcpSource

HOST_NAMESPACE = 4026531840  # the number of the network namespace of the host


class FakeKernel:
    """The connections of a fake host, and the number of dumps."""

    def __init__(self):
        self.connections = []
        self.num_dumps = 0

    def add(self, inode, peer="10.0.0.2", sent=0, unread=0, retransmitted=0, round_trip=None, delivery=None, **more):
        """Add a connection. `sent` and `unread`: bytes in its queues; `round_trip`: seconds; `delivery`: bytes/s."""
        connection = Connection(inode, "10.0.0.1", peer, sent, unread, retransmitted, round_trip, delivery, **more)
        self.connections.append(connection)

    def dump(self, wanted):
        """Return the connections with these inodes, and the inodes of the others, as sock_diag.dump() does."""
        self.num_dumps += 1
        connections = [connection for connection in self.connections if connection.inode in wanted]
        other_inodes = {connection.inode for connection in self.connections if connection.inode not in wanted}
        return Dump(connections, other_inodes)


class FakeHost:
    """A /proc tree, the ranks that live there, and the source that reads them."""

    def __init__(self, proc):
        self.proc, self.kernel, self.ranks = proc, FakeKernel(), {}
        self._link("self/ns/net", f"net:[{HOST_NAMESPACE}]")
        self.interfaces = {"10.0.0.1": "eth1", "192.168.0.1": "eth0"}
        self.stands_still = False
        self.questions = []  # the addresses that were asked for an answer, each with the own address to ask from
        self.answers = frozenset()  # the addresses that answer
        self.source = TcpSource(
            lambda: self.ranks,
            proc,
            dump=self.kernel.dump,
            interfaces=lambda: self.interfaces,
            stands_still=lambda: self.stands_still,
            answers=self._ask,
        )

    def _ask(self, own_addresses):
        self.questions.append(own_addresses)
        return self.answers

    def _link(self, path, target):
        (self.proc / path).parent.mkdir(parents=True, exist_ok=True)
        (self.proc / path).symlink_to(target)

    def start(self, pid, rank, *inodes, namespace=HOST_NAMESPACE):
        """Add a process with stdin, a pipe, an event descriptor and sockets. It is a rank if `rank` is not None."""
        self._link(f"{pid}/ns/net", f"net:[{namespace}]")
        targets = ["/dev/null", "pipe:[77]", "anon_inode:[eventfd]", *(f"socket:[{inode}]" for inode in inodes)]
        for number, target in enumerate(targets):
            self._link(f"{pid}/fd/{number}", target)
        if rank is not None:
            self.ranks = {**self.ranks, add_process(self.proc, pid): ("dlrm", rank)}

    def peers(self):
        """Read the source once, and return its peers."""
        return self.source.read().value.peers
