"""Has the training run away, so that every further step is for nothing?

A loss that is NaN or infinite for several steps does not come back by itself: weights are broken. Mixed precision
skips single steps, and other values (an AUC of a batch of one class) may well be undefined.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from zmon.detectors.parts.verdict import checkpoint_seconds, verdict
from zmon.schema.evidence import Evidence
from zmon.schema.finding import Finding
from zmon.schema.snapshot import Snapshot
from zmon.schema.thresholds import Thresholds

_LOSS = re.compile(r"(?<![a-z])loss(?![a-z])|normalized_entropy", re.IGNORECASE)  # train_loss, loss/main, log_loss


@dataclass(frozen=True)
class Divergence(Thresholds):
    """Thresholds."""

    num_steps: int = 10  # a gradient scaler that starts too high skips a few in a row
    name = "divergence"
    separate = False
    causes = ("divergence",)

    def sees(self, snapshot: Snapshot, finding: Finding) -> bool:
        """Once the ranks tell losses that are numbers, or are gone: a hub that began anew has counted no steps yet."""
        told = [value for r in snapshot.ranks for key, value in r.report.items() if _LOSS.search(key)]
        return not any(r.alive for r in snapshot.reported_ranks) or (bool(told) and None not in told)

    def inert(self, snapshot: Snapshot) -> str | None:
        """Where no rank reports a loss."""
        told = any(_LOSS.search(key) for r in snapshot.reported_ranks for key in r.report)
        return None if told else "no rank reports a loss: zmon.report(loss=…)"

    def detect(self, snapshot: Snapshot) -> tuple[Finding, ...]:
        """At most one, about the job; nobody is to blame."""
        lasts = {key: n for key, n in snapshot.not_finite.items() if _LOSS.search(key) and n >= self.num_steps}
        if not lasts:
            return ()
        key = max(lasts, key=lambda k: lasts[k])
        saying = [r for r in snapshot.ranks if r.alive and r.report.get(key, 0.0) is None]
        if not saying:
            return ()
        lead = saying[0]
        step, ago = lead.step - lasts[key], lasts[key] * lead.step_seconds_total / max(lead.steps, 1)
        found = verdict(
            snapshot,
            detector=self.name,
            cause="divergence",
            severity="critical",
            culprits=(),
            seconds_ago=ago,
            confidence=0.95,
            stalled=False,
            lost_ratio=1.0,
            summary=f"{key} has been NaN or infinite for {lasts[key]} steps (threshold {self.num_steps}) on "
            f"{len(saying)} of {snapshot.world_size} ranks, and was a number last at step {step}: what is trained "
            "since is lost",
            detail=f"End the job. {_checkpoint(snapshot, ago)} Then look at what came after step {step}: a batch (skip "
            "it), the learning rate (lower it, clip gradients), float16 (bfloat16, or a lower loss scale).",
            evidence=Evidence(key=key, num_steps=lasts[key], saying=tuple(r.rank for r in saying)),
        )
        return (replace(found, step=step),)


def _checkpoint(snapshot: Snapshot, ago: float) -> str:
    """What to start from again, if it is known."""
    age = checkpoint_seconds(snapshot.reported_ranks)
    if age is None:
        return "No checkpoint of it was seen; if there is one, start again from the last before that step."
    if age < ago:
        return f"The last checkpoint was saved {age:.0f} s ago, after it: start again from the one before."
    return f"Start again from the last checkpoint, of {age:.0f} s ago: all since then is lost."
