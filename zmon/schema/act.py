"""Acts and intents: an act is what zmon does about a finding, and an intent asks for it because of a rule of the site.

Frozen data only. Times are unix seconds, by the hub's clock unless a comment names another. `zmon/hub/acts/` decides
what to ask for, and `zmon/agent/acts/` decides whether to do it.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from zmon.format import listed
from zmon.schema.limits import JobId, Seconds, Whole
from zmon.schema.names import SCHEMA

# The acts.
CAPTURE = "capture"  # write the incident at once
KILL_CULPRIT = "kill_culprit"  # kill each rank at fault
END_JOB = "end_job"  # end the launchers of the job
STOP_RESTARTS = "stop_restarts"  # end the launchers of a job that fails at each start
ACTS = (CAPTURE, KILL_CULPRIT, END_JOB, STOP_RESTARTS)
AGENT_ACTS = (KILL_CULPRIT, END_JOB, STOP_RESTARTS)  # an agent does these; the hub writes the incident itself
# The modes of a rule.
OBSERVE = "observe"  # record the intent, and ask for no act
ENFORCE = "enforce"  # ask for the act
# The results of an intent.
OBSERVED = "observed"  # it was only recorded
REFUSED = "refused"  # by a guard of the hub, or by an agent
UNANSWERED = "unanswered"  # the act was asked for, and no answer came
ACTED = "acted"  # the act was done
RESULTS = (OBSERVED, REFUSED, UNANSWERED, ACTED)
# The outcomes of an act.
STEPS_AGAIN = "steps_again"  # the job finishes steps again
ENDED = "ended"  # the launch has ended, and nothing restarts it
DID_NOT_HELP = "did_not_help"  # neither happened in time (zmon/hub/acts/score.py)
OUTCOME_UNKNOWN = "unknown"  # no agent reported the job any more
# The scores of an intent whose act was not done.
RIGHT = "right"  # somebody killed the rank or the launch without progress in between
WRONG = "wrong"  # the job went on by itself
UNCLEAR = "unclear"  # neither, or it is not known
# Hub and agent allow one act on a job within this time: a second one would meet the job that the first one restarts.
ACT_INTERVAL_SECONDS = 600.0


class ActRequest(msgspec.Struct, frozen=True, kw_only=True):
    """`POST /api/v1/acts` of an agent: the act about one rank of its node, or about the launcher of that rank."""

    act: str  # one of AGENT_ACTS
    job_id: JobId
    rank: Whole
    run_uid: str  # of the rank: one start of it
    intent: str  # the id of the hub's intent
    reason: str  # rule, cause and proof in one line, for the audit
    grace_seconds: Seconds = 10.0  # between SIGTERM and SIGKILL, if the act ends a launcher


class ActAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """The answer of an agent to one request."""

    result: str  # ACTED or REFUSED
    reason: str  # what was done to which process, or why nothing was, in one line
    host: str
    time: Seconds  # by the clock of that host
    # True: nothing new was done. This is the answer to an earlier request about the same rank or launcher.
    repeated: bool = False
    schema: int = SCHEMA


class Intent(msgspec.Struct, frozen=True, kw_only=True):
    """The request of a rule for an act about a finding, and what became of the request."""

    id: str
    rule: str  # its name in the policy
    act: str
    mode: str  # OBSERVE or ENFORCE
    time: float  # when the rule asked
    # The finding and its job
    finding: str  # its id
    job_id: str
    launch_id: str
    attempt: int
    cause: str
    proof: str  # what proves the finding
    severity: str
    confidence: float
    ranks: tuple[int, ...]
    hosts: tuple[str, ...]
    run_uids: tuple[str, ...]  # of the ranks at fault, or of one rank of each launcher: agents are asked about these
    step: int | None
    onset: float
    labels: Mapping[str, str]  # those of the job that the rule reads
    # What became of the request
    capsule: str | None = None  # the incident, written before the act; None: it was not written in time
    result: str = OBSERVED  # one of RESULTS
    reasons: tuple[str, ...] = ()  # why it was refused, or what agents answered
    outcome: str = ""  # STEPS_AGAIN, ENDED, DID_NOT_HELP or OUTCOME_UNKNOWN; "": not known yet, or nothing was done
    outcome_seconds: float | None = None  # from the onset to the outcome
    score: str = ""  # RIGHT, WRONG or UNCLEAR; "": not known yet, or something was done

    @property
    def who(self) -> str:
        """The ranks at fault in words, or the hosts if no rank is at fault."""
        noun = "rank" if len(self.ranks) == 1 else "ranks"
        return f"{noun} {listed([str(rank) for rank in self.ranks])}" if self.ranks else listed(self.hosts, 4)

    @property
    def state(self) -> str:
        """Its outcome, or else its result, in a word or two."""
        return (self.outcome or self.result).replace("_", " ")
