"""Rules, intents and snapshots for tests of acts."""

from dataclasses import replace

from tests.build import JOB, NOW, finding, snapshot, waiting
from tests.detectors.stalls import stopped
from zmon.hub.acts.policy import ActRule
from zmon.hub.alert_labels import AlertLabels
from zmon.schema.act import Intent

# A rule of a policy file. It observes, because it has no mode.
RULE = {"name": "frozen", "causes": ["rank_frozen"], "proofs": ["process_state"], "act": "kill_culprit"}
PROVEN = finding(proof="process_state")  # rank 2 is stopped


def rule(**changes):
    """Return a rule that would kill a frozen rank; it only observes."""
    given = {"name": "frozen", "causes": ("rank_frozen",), "proofs": ("process_state",), "act": "kill_culprit",
             "mode": "observe", "min_confidence": 0.8, "wait_seconds": 2.0, "labels": AlertLabels(),
             "override": ""}  # fmt: skip
    return ActRule(**{**given, **changes})


def intent(**changes):
    """Return the intent to kill rank 2, which is frozen."""
    given = {
        "id": "f1/frozen", "rule": "frozen", "act": "kill_culprit", "mode": "enforce", "time": NOW, "finding": "f1",
        "job_id": JOB, "launch_id": "launch", "attempt": 0, "cause": "rank_frozen", "proof": "process_state",
        "severity": "critical", "confidence": 0.97, "ranks": (2,), "hosts": ("node-a",), "run_uids": ("uid 2",),
        "step": 100, "onset": NOW - 2.0, "labels": {},
    }  # fmt: skip
    return Intent(**{**given, **changes})


def stalled(**changes):
    """Return a job that waits for rank 2, which is stopped."""
    return snapshot(*of_launch([stopped(2), *(waiting(rank, 2.0) for rank in (0, 1, 3))], **changes))


def of_launch(ranks, attempt=0, **changes):
    """Return these ranks as those of one start of a launcher."""
    given = {"attempt": attempt, "restart_count": attempt, "launch_id": "launch", "max_restarts": 3}
    prefix = f"uid {attempt}:" if attempt else "uid"
    return [replace(rank, run_uid=f"{prefix} {rank.rank}", **{**given, **changes}) for rank in ranks]
