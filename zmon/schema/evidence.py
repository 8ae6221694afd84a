"""The evidence of a finding: what its detector measured, and what the hub gathered from the agents afterwards.

Each detector sets the fields on which its decision is based. A field that is not set is UNSET and is not written as
JSON; None is written as null. Keys that only a newer zmon knows are ignored.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
from msgspec import UNSET, UnsetType

from zmon.schema.launch_end import LaunchEnd
from zmon.schema.pause import Silence
from zmon.schema.rank import LastWords, RankStatus


class Checkpoint(msgspec.Struct, frozen=True):
    """The newest checkpoint of the job."""

    seconds_ago: float


class Fault(msgspec.Struct, frozen=True):
    """A fault of one GPU or one link."""

    cause: str
    host: str
    device: str
    says: str
    uuid: str = ""  # UUID of the GPU


class HostLink(msgspec.Struct, frozen=True):
    """The TCP connections from the ranks of one host to those of another; None where the host does not report it."""

    host: str
    device: str | None  # the interface of the host, if its ranks use only one
    peer: str  # the other host
    addresses: tuple[str, ...]  # of the other host
    num_connections: int
    num_waiting: int | None  # connections with data that timed out and was sent again, and is not acknowledged yet
    num_timeouts: int | None  # timeouts in a row, on the connection with the most
    send_queue_bytes: int  # written, not yet acknowledged
    retransmitted_segments: int  # since the connections were opened
    acked_bytes: int | None  # in the last few seconds
    busy_seconds: float | None  # in the last few seconds, while data was under way


class PlannedShare(msgspec.Struct, frozen=True):
    """The work that the trainer's plan gave to one rank, beside the measured work in a step."""

    tables: tuple[str, ...]  # names; only the first ones if there are many
    num_tables: int | None
    planned: int | None  # in `unit`
    measured: int | float
    unit: str


class RankStack(msgspec.Struct, frozen=True):
    """The stack of one rank, or why there is none. If its agent did not answer, only `stack_error` is set."""

    job_id: str | UnsetType = UNSET
    rank: int | UnsetType = UNSET
    run_uid: str | UnsetType = UNSET
    alive: bool | UnsetType = UNSET
    pid: int | UnsetType | None = UNSET  # as the agent sees it
    wchan: str | UnsetType | None = UNSET  # the kernel function in which it sleeps
    stack: str | UnsetType | None = UNSET  # Python stacks of all threads
    stack_error: str | UnsetType | None = UNSET
    schema: int | UnsetType = UNSET


class StderrTail(msgspec.Struct, frozen=True):
    """The last lines of one rank's standard error, or why there are none."""

    text: str | None
    error: str | None
    path: str | None
    shared: bool  # True: other ranks of the host write to the same file


class PendingRow(msgspec.Struct, frozen=True):
    """One collective in flight; zmon.schema.flight.PendingCollective explains the fields."""

    group: str
    sequence: int
    op: str
    num_bytes: int | None
    sizes: tuple[tuple[int, ...], ...]
    dtypes: tuple[str, ...]
    age_seconds: float | None
    state: str


class FlightRow(msgspec.Struct, frozen=True):
    """The collectives that one rank has in flight, or why they are not known."""

    pending: tuple[PendingRow, ...] | UnsetType = UNSET  # the oldest ones
    num_pending: int | UnsetType = UNSET
    last: Mapping[str, int] | UnsetType = UNSET  # group → the last sequence that is done
    error: str | UnsetType = UNSET


class JoinedFault(msgspec.Struct, frozen=True):
    """A fault that began while another one of the same job was not over, and joined its finding."""

    cause: str
    ranks: tuple[int, ...]
    hosts: tuple[str, ...]
    severity: str
    onset: float  # unix seconds
    summary: str


class Evidence(msgspec.Struct, frozen=True):
    """The data behind a finding."""

    # stall
    pids: tuple[int, ...] | UnsetType = UNSET
    last_words: LastWords | UnsetType | None = UNSET
    exit_status: str | UnsetType | None = UNSET
    out_of_memory: str | UnsetType | None = UNSET  # the limit that was reached, or the kernel's line
    group: str | UnsetType = UNSET
    sequence: int | UnsetType = UNSET
    hosts: tuple[str, ...] | UnsetType = UNSET
    pair: tuple[int, ...] | UnsetType = UNSET  # the two ranks whose connection broke
    num_starts: int | UnsetType = UNSET  # launches that failed one after the other without progress
    ends: tuple[LaunchEnd, ...] | UnsetType = UNSET  # the last ones of these
    silence: Silence | UnsetType = UNSET  # set if nothing but the lack of progress proves the stall
    joined: tuple[JoinedFault, ...] | UnsetType = UNSET  # further faults, in the order in which they joined
    victims: str | UnsetType = UNSET  # the exits of ranks that waited for the culprit; the summary ends with them
    # stall, straggler
    device: str | UnsetType | None = UNSET  # a network interface
    links: tuple[HostLink, ...] | UnsetType = UNSET  # between the hosts at fault, or from and to the host at fault
    # coverage
    missing: tuple[int, ...] | UnsetType = UNSET  # the first ones; also set by stall
    num_missing: int | UnsetType = UNSET  # all of them
    agents: tuple[str, ...] | UnsetType = UNSET  # URLs
    # straggler
    own_seconds: Mapping[str, float] | UnsetType = UNSET  # self time: rank, or `median` → seconds
    lag_seconds: Mapping[str, float] | UnsetType = UNSET  # rank → seconds
    lag_by_phase_seconds: Mapping[str, float] | UnsetType = UNSET
    step_seconds: float | UnsetType = UNSET
    saved_seconds: float | UnsetType = UNSET
    exposed_seconds: float | UnsetType = UNSET
    good_exposed_seconds: float | UnsetType | None = UNSET
    throttled: Mapping[str, tuple[str, ...]] | UnsetType = UNSET  # UUID of the GPU → reasons
    # imbalance
    uneven_ratio: float | UnsetType | None = UNSET  # None: infinite
    cost_ratio: float | UnsetType = UNSET
    lost_ratio_by_phase: Mapping[str, float] | UnsetType = UNSET  # phase that made the slowest rank late → share
    worked_ratio: float | UnsetType = UNSET  # share of the loss that samples, tokens, lookups or bytes explain
    slowest_ratio: Mapping[str, float] | UnsetType = UNSET  # rank that is slowest most often → share of the loss
    role: str | UnsetType = UNSET  # the role that takes longest
    own_seconds_by_role: Mapping[str, float] | UnsetType = UNSET  # self time of the median rank, by role
    # divergence
    key: str | UnsetType = UNSET
    # input_bound
    data_ratio: float | UnsetType = UNSET
    # straggler, imbalance, divergence, input_bound
    num_steps: int | UnsetType = UNSET
    plan: PlannedShare | UnsetType = UNSET  # imbalance
    # divergence: the ranks whose loss is NaN or infinite
    nan_ranks: tuple[int, ...] | UnsetType = msgspec.field(default=UNSET, name="saying")
    # slowdown
    baseline_seconds: float | UnsetType = UNSET
    samples: int | UnsetType | None = UNSET
    world_size: int | UnsetType = UNSET
    run_uid: str | UnsetType = UNSET
    grew_seconds: Mapping[str, float] | UnsetType = UNSET  # part of the step → seconds
    pressure: Mapping[str, Mapping[str, float]] | UnsetType = UNSET  # host → resource → ratio
    # efficiency
    reached_ratio: float | UnsetType = UNSET
    recorded_efficiency_ratio: float | UnsetType = UNSET
    scaling: str | UnsetType = UNSET
    baseline: str | UnsetType = UNSET
    # hardware
    faults: tuple[Fault, ...] | UnsetType = UNSET
    # unread
    unread: tuple[str, ...] | UnsetType = UNSET  # why the first ranks cannot be read
    # every detector
    last_checkpoint: Checkpoint | UnsetType | None = UNSET  # set if the job stalls; None: no checkpoint was seen
    ranks: tuple[RankStatus, ...] | UnsetType = UNSET
    num_ranks_left_out: int | UnsetType = UNSET  # set if `ranks` has only some: of a large job, or in an answer
    # gathered by the hub, by rank
    in_flight: Mapping[str, FlightRow] | UnsetType = UNSET
    stacks: Mapping[str, RankStack] | UnsetType = UNSET
    stderr_tail: Mapping[str, StderrTail] | UnsetType = UNSET
    owners: tuple[int | None, ...] | UnsetType = UNSET  # uids of the users of these ranks; None: an agent reports none
    # the fields that the journal does not keep, or that only the capsule has
    dropped: tuple[str, ...] | UnsetType = UNSET

    @property
    def names(self) -> tuple[str, ...]:
        """The attribute names of the fields that are set."""
        return tuple(name for name in self.__struct_fields__ if getattr(self, name) is not UNSET)

    def updated(self, later: Evidence) -> Evidence:
        """Return this evidence with the fields that are set in `later`."""
        return msgspec.structs.replace(self, **{name: getattr(later, name) for name in later.names})

    def without_bulk(self) -> Evidence:
        """Return this evidence without the fields that grow with the number of ranks; `dropped` names them."""
        return self.without("ranks", "in_flight", "stacks")

    def without(self, *names: str) -> Evidence:
        """Return the evidence without these fields; `dropped` names those that were set."""
        lost = tuple(name for name in names if getattr(self, name) is not UNSET)
        if not lost:
            return self
        earlier = () if self.dropped is UNSET else self.dropped
        return msgspec.structs.replace(self, **dict.fromkeys(lost, UNSET), dropped=(*earlier, *lost))
