"""Report a training that has diverged, so that every further step is lost.

A loss that is NaN or infinite for several steps does not recover by itself, because the weights are broken. Single
steps do not count, because mixed precision skips some. Values other than losses do not count either: the AUC of a batch
with only one class is undefined.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from zmon.detectors.new_finding import checkpoint_seconds, new_finding
from zmon.schema.evidence import DivergenceEvidence
from zmon.schema.finding import Finding
from zmon.schema.job_snapshot import Snapshot
from zmon.schema.thresholds import Thresholds

_LOSS = re.compile(r"(?<![a-z])loss(?![a-z])|normalized_entropy", re.IGNORECASE)  # train_loss, loss/main, log_loss


@dataclass(frozen=True)
class Divergence(Thresholds):
    """The detector `divergence`."""

    # The training has diverged if a loss is NaN or infinite in this many consecutive steps. A gradient scaler that
    # starts too high skips a few steps.
    num_steps: int = 10
    name = "divergence"
    separate = False
    causes = ("divergence",)

    def can_resolve(self, snapshot: Snapshot, finding: Finding) -> bool:
        """Return True once all losses that the ranks report are numbers, or once all ranks are gone.

        The number of steps cannot decide this, because a hub that has restarted has counted none yet.
        """
        losses = [value for r in snapshot.ranks for key, value in r.report.items() if _LOSS.search(key)]
        return not any(r.alive for r in snapshot.reported_ranks) or (bool(losses) and None not in losses)

    def inert_reason(self, snapshot: Snapshot) -> str | None:
        """Return a reason if no rank reports a loss."""
        reported = any(_LOSS.search(key) for r in snapshot.reported_ranks for key in r.report)
        return None if reported else "no rank reports a loss: call zmon.report(loss=…)"

    def detect(self, snapshot: Snapshot) -> tuple[Finding, ...]:
        """Return at most one finding, about the job; it has no culprit."""
        num_steps = {key: n for key, n in snapshot.not_finite.items() if _LOSS.search(key) and n >= self.num_steps}
        if not num_steps:
            return ()
        key = max(num_steps, key=lambda k: num_steps[k])
        affected = [r for r in snapshot.ranks if r.alive and r.report.get(key, 0.0) is None]
        if not affected:
            return ()
        lead = affected[0]
        last_finite_step = lead.step - num_steps[key]
        seconds_ago = num_steps[key] * lead.step_seconds_total / max(lead.steps, 1)
        finding = new_finding(
            snapshot,
            detector=self.name,
            cause="divergence",
            severity="critical",
            seconds_ago=seconds_ago,
            confidence=0.95,
            lost_ratio=1.0,
            summary=f"{key} has been NaN or infinite for {num_steps[key]} steps (threshold {self.num_steps}) on "
            f"{len(affected)} of {snapshot.world_size} ranks; the last number was at step {last_finite_step}, and all "
            "training since then is lost",
            detail=f"End the job. {_checkpoint(snapshot, seconds_ago)} Then find out what changed after step "
            f"{last_finite_step}: a batch (skip it), the learning rate (lower it, clip gradients), float16 (use "
            "bfloat16, or a lower loss scale).",
            evidence=DivergenceEvidence(key=key, num_steps=num_steps[key], nan_ranks=tuple(r.rank for r in affected)),
        )
        return (replace(finding, step=last_finite_step),)


def _checkpoint(snapshot: Snapshot, seconds_ago: float) -> str:
    """Return a sentence that says which checkpoint to restart from, as far as it is known."""
    age = checkpoint_seconds(snapshot.reported_ranks)
    if age is None:
        return "zmon saw no checkpoint; if there is one, restart from the last one before that step."
    if age < seconds_ago:
        return f"The last checkpoint was saved {age:.0f} s ago, after that step: restart from the one before."
    return f"Restart from the last checkpoint, {age:.0f} s old: the work since then is lost."
