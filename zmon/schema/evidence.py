"""The evidence of a finding: what its detector measured, and what the hub gathered from the agents afterwards.

Each detector has a class for its evidence, and sets the fields on which its decision is based. A field that is not set
is UNSET and is not written as JSON; None is written as null. Keys that only a newer zmon knows are ignored.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Self

import msgspec
from msgspec import UNSET, UnsetType

from zmon.schema.ended_launch import LaunchEnd
from zmon.schema.gathered import FlightRow, RankStack, StderrTail
from zmon.schema.names import STALL
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


class JoinedFault(msgspec.Struct, frozen=True):
    """A fault that began while another one of the same job was not over, and joined its finding."""

    cause: str
    ranks: tuple[int, ...]
    hosts: tuple[str, ...]
    severity: str
    onset: float  # unix seconds
    summary: str


class Evidence(msgspec.Struct, frozen=True, kw_only=True):
    """The data behind a finding of any detector. As JSON, the fields of the detector come first."""

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

    def updated(self, later: Evidence) -> Self:
        """Return this evidence with the fields that are set in `later`."""
        return msgspec.structs.replace(self, **{name: getattr(later, name) for name in later.names})

    def without_bulk(self) -> Self:
        """Return this evidence without the fields that grow with the number of ranks; `dropped` names them."""
        return self.without("ranks", "in_flight", "stacks")

    def without(self, *names: str) -> Self:
        """Return the evidence without these fields; `dropped` names those that were set."""
        lost = tuple(name for name in names if getattr(self, name) is not UNSET)
        if not lost:
            return self
        earlier = () if self.dropped is UNSET else self.dropped
        return msgspec.structs.replace(self, **dict.fromkeys(lost, UNSET), dropped=(*earlier, *lost))


class StallEvidence(Evidence, frozen=True):
    """The evidence of a job that stands still or has ended. Faults of different kinds may join in one finding."""

    # how the first rank ended
    pids: tuple[int, ...] | UnsetType = UNSET  # of the ranks that are stopped, sleep, or have lost their launcher
    last_words: LastWords | UnsetType | None = UNSET
    exit_status: str | UnsetType | None = UNSET
    out_of_memory: str | UnsetType | None = UNSET  # the limit that was reached, or the kernel's line
    num_starts: int | UnsetType = UNSET  # launches that failed one after the other without progress
    ends: tuple[LaunchEnd, ...] | UnsetType = UNSET  # the last ones of these
    # a hang in a collective
    group: str | UnsetType = UNSET  # the process group
    sequence: int | UnsetType = UNSET  # of the collective in that group
    num_steps: int | UnsetType = UNSET  # steps that were compared
    # ranks that no agent reports
    missing: tuple[int, ...] | UnsetType = UNSET  # the first ones
    num_missing: int | UnsetType = UNSET  # all of them
    # the network
    hosts: tuple[str, ...] | UnsetType = UNSET  # those that are lost, or of `pair`
    pair: tuple[int, ...] | UnsetType = UNSET  # the two ranks whose connection broke
    device: str | UnsetType | None = UNSET  # a network interface
    links: tuple[HostLink, ...] | UnsetType = UNSET  # between the hosts at fault
    # a stall that nothing proves
    silence: Silence | UnsetType = UNSET  # set if nothing but the lack of progress proves the stall
    # further faults
    joined: tuple[JoinedFault, ...] | UnsetType = UNSET  # in the order in which they joined
    victims: str | UnsetType = UNSET  # the exits of ranks that waited for the culprit; the summary ends with them


class CoverageEvidence(Evidence, frozen=True):
    """The evidence of ranks that nothing watches."""

    missing: tuple[int, ...] | UnsetType = UNSET  # ranks that no agent reports; the first ones
    num_missing: int | UnsetType = UNSET  # all of them
    agents: tuple[str, ...] | UnsetType = UNSET  # URLs of the silent agents


class StragglerEvidence(Evidence, frozen=True):
    """The evidence of ranks, or of a network, that hold the others back. Seconds are per step."""

    # a slow rank
    own_seconds: Mapping[str, float] | UnsetType = UNSET  # self time: rank, or `median` → seconds
    lag_seconds: Mapping[str, float] | UnsetType = UNSET  # rank → seconds more than the median of the others
    lag_by_phase_seconds: Mapping[str, float] | UnsetType = UNSET  # phase → these seconds of the slowest rank
    num_steps: int | UnsetType = UNSET  # steps for which it has lasted
    step_seconds: float | UnsetType = UNSET  # the median
    saved_seconds: float | UnsetType = UNSET  # a step would be shorter by this if the culprits were as fast as others
    throttled: Mapping[str, tuple[str, ...]] | UnsetType = UNSET  # UUID of the GPU → reasons
    # a slow network; `step_seconds` is set too
    device: str | UnsetType | None = UNSET  # a network interface
    links: tuple[HostLink, ...] | UnsetType = UNSET  # between the hosts at fault, or from and to the host at fault
    exposed_seconds: float | UnsetType = UNSET  # exposed time
    good_exposed_seconds: float | UnsetType | None = UNSET  # that of the baseline; None: there is none


class ImbalanceEvidence(Evidence, frozen=True):
    """The evidence of work that is unevenly divided over ranks, stages or steps."""

    cost_ratio: float | UnsetType = UNSET  # share of the step that is lost
    num_steps: int | UnsetType = UNSET  # steps that were compared
    step_seconds: float | UnsetType = UNSET
    saved_seconds: float | UnsetType = UNSET  # a step would be shorter by this if the work were even
    # the same ranks have more work in each step
    uneven_ratio: float | UnsetType | None = UNSET  # work of the rank, by that of others; None: infinite
    plan: PlannedShare | UnsetType = UNSET
    # another rank is slowest in each step
    lost_ratio_by_phase: Mapping[str, float] | UnsetType = UNSET  # phase that made the slowest rank late → share
    worked_ratio: float | UnsetType = UNSET  # share of the loss that samples, tokens, lookups or bytes explain
    slowest_ratio: Mapping[str, float] | UnsetType = UNSET  # rank that is slowest most often → share of the loss
    # a stage takes longer than the others
    role: str | UnsetType = UNSET  # the role that takes longest
    own_seconds_by_role: Mapping[str, float] | UnsetType = UNSET  # self time of the median rank, by role


class SlowdownEvidence(Evidence, frozen=True):
    """The evidence of steps that take longer than the baseline."""

    baseline_seconds: float | UnsetType = UNSET  # of a step
    samples: int | UnsetType | None = UNSET  # of a step in the baseline; None: unknown
    world_size: int | UnsetType = UNSET
    run_uid: str | UnsetType = UNSET  # the first one of the launch
    grew_seconds: Mapping[str, float] | UnsetType = UNSET  # part of the step → seconds more than in the baseline
    pressure: Mapping[str, Mapping[str, float]] | UnsetType = UNSET  # host → resource → share of time


class EfficiencyEvidence(Evidence, frozen=True):
    """The evidence of a job that scales worse than recorded."""

    reached_ratio: float | UnsetType = UNSET  # efficiency as a share of the recorded one
    recorded_efficiency_ratio: float | UnsetType = UNSET
    scaling: str | UnsetType = UNSET  # weak or strong
    baseline: str | UnsetType = UNSET  # the name of the recorded curve


class InputBoundEvidence(Evidence, frozen=True):
    """The evidence of a job that waits for its input."""

    data_ratio: float | UnsetType = UNSET  # share of the step in which ranks wait for data
    num_steps: int | UnsetType = UNSET  # steps that were measured


class DivergenceEvidence(Evidence, frozen=True):
    """The evidence of a loss that is no number any more."""

    key: str | UnsetType = UNSET  # the reported value; unset if only backward passes show it
    num_steps: int | UnsetType = UNSET  # steps in which it was no finite number
    # the ranks whose value is NaN or infinite
    nan_ranks: tuple[int, ...] | UnsetType = msgspec.field(default=UNSET, name="saying")
    # of the first ones, if those of all ranks are known
    first_step: int | UnsetType = UNSET
    first_ranks: tuple[int, ...] | UnsetType = UNSET


class HardwareEvidence(Evidence, frozen=True):
    """The evidence of hardware that reports errors."""

    faults: tuple[Fault, ...] | UnsetType = UNSET


class UnreadEvidence(Evidence, frozen=True):
    """The evidence of ranks whose state an agent cannot read."""

    unread: tuple[str, ...] | UnsetType = UNSET  # why the first ranks cannot be read


EVIDENCE: Mapping[str, type[Evidence]] = {  # by detector
    STALL: StallEvidence,
    "coverage": CoverageEvidence,
    "straggler": StragglerEvidence,
    "imbalance": ImbalanceEvidence,
    "slowdown": SlowdownEvidence,
    "efficiency": EfficiencyEvidence,
    "input_bound": InputBoundEvidence,
    "divergence": DivergenceEvidence,
    "hardware": HardwareEvidence,
    "unread": UnreadEvidence,
}

# The detector is outside the evidence in JSON, so that evidence is decoded as a class with the fields of all detectors.
if TYPE_CHECKING:
    AnyEvidence = Evidence
else:
    _FIELDS = {field.name: field for kind in EVIDENCE.values() for field in msgspec.structs.fields(kind)}
    AnyEvidence = msgspec.defstruct(
        "AnyEvidence",
        [
            (name, field.type, msgspec.field(default=field.default, name=field.encode_name))
            for name, field in _FIELDS.items()
            if name not in Evidence.__struct_fields__
        ],
        bases=(Evidence,),
        frozen=True,
        module=__name__,
        namespace={"__doc__": "The evidence of a finding. Each detector sets some of the fields."},
    )


def narrowed(evidence: Evidence, detector: str) -> Evidence:
    """Return the evidence as the class of the detector; the same if only a newer zmon has that detector.

    Decoded evidence may have fields of other detectors, which are left out. Raises TypeError if a detector set such a
    field itself.
    """
    kind = EVIDENCE.get(detector, type(evidence))
    if type(evidence) is kind:
        return evidence
    is_decoded = type(evidence) is AnyEvidence
    names = [name for name in evidence.names if not is_decoded or name in kind.__struct_fields__]
    return kind(**{name: getattr(evidence, name) for name in names})
