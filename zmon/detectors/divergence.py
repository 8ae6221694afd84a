"""Report a training that has diverged, so that every further step is lost, and name the rank of the first NaN.

A loss that is NaN or infinite for several steps does not recover by itself, because the weights are broken. Single
steps do not count, because mixed precision skips some. Values other than losses do not count either: the AUC of a batch
with only one class is undefined.

After the first NaN of one rank, the averaged gradients break the weights of all, so the others follow in the next step.
The box of each rank has the step since which its losses are not finite.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from msgspec import UNSET

from zmon.detectors.new_finding import checkpoint_seconds, new_finding
from zmon.detectors.wording import ranks_on, ranks_text
from zmon.schema.evidence import DivergenceEvidence
from zmon.schema.finding import Finding
from zmon.schema.job_snapshot import Snapshot
from zmon.schema.names import LOSS, LOSS_SOURCES, STEPS
from zmon.schema.rank import RankState
from zmon.schema.thresholds import Thresholds


@dataclass(frozen=True)
class Divergence(Thresholds):
    """The detector `divergence`."""

    # The training has diverged if a loss is NaN or infinite in this many consecutive steps. A gradient scaler that
    # starts too high skips a few steps.
    num_steps: int = 10
    # The same, if one rank had the first one and all others followed in the next step. Broken weights spread in this
    # way. A gradient scaler does not: it skips the step on all ranks.
    num_steps_of_spread: int = 3
    name = "divergence"
    separate = False
    causes = ("divergence",)

    def can_resolve(self, snapshot: Snapshot, finding: Finding) -> bool:
        """Return True once all known losses of the ranks are numbers, or once all ranks are gone.

        The number of steps cannot decide this, because a hub that has restarted has counted none yet.
        """
        finite = [value is not None for r in snapshot.ranks for key, value in r.report.items() if LOSS.search(key)]
        finite += [since is None for r in snapshot.ranks for since in r.not_finite_since.values()]
        return not any(r.alive for r in snapshot.reported_ranks) or (bool(finite) and all(finite))

    def inert_reason(self, snapshot: Snapshot) -> str | None:
        """Return a reason if no rank reports a loss, or begins its backward pass with one."""
        known = any(r.not_finite_since or any(map(LOSS.search, r.report)) for r in snapshot.reported_ranks)
        return None if known else "no rank reports a loss: call zmon.report(loss=…)"

    def detect(self, snapshot: Snapshot) -> tuple[Finding, ...]:
        """Return at most one finding, about the job; its culprit is the rank of the first NaN, if that is certain."""
        counts = {key: n for key, n in snapshot.not_finite.items() if LOSS.search(key) and n >= self.num_steps}
        key = max(counts, key=lambda name: counts[name], default="")  # the loss that has been NaN longest
        first = _first_nan(snapshot)
        threshold = self.num_steps_of_spread if first and first.has_spread else self.num_steps
        if first and first.num_steps >= threshold:
            num_steps, affected = first.num_steps, [r for r in snapshot.ranks if r.alive]
        elif key:
            num_steps, threshold = counts[key], self.num_steps
            affected = [r for r in snapshot.ranks if r.alive and r.report.get(key, 0.0) is None]
        else:
            return ()
        if not affected:
            return ()
        rank = affected[0]
        last_finite_step = first.step - 1 if first else rank.step - num_steps
        seconds_ago = num_steps * rank.step_seconds_total / max(rank.steps, 1)
        finding = new_finding(
            snapshot,
            detector=self.name,
            cause="divergence",
            severity="critical",
            proof=STEPS,
            seconds_ago=seconds_ago,
            confidence=0.95,
            lost_ratio=1.0,
            culprits=first.culprits if first else (),
            summary=f"{key or 'the loss'} has been NaN or infinite for {num_steps} steps (threshold {threshold}) on "
            f"{len(affected)} of {snapshot.world_size} ranks; {first.text if first else 'the first rank is unknown'}; "
            f"the last number was at step {last_finite_step}, and all training since then is lost",
            detail=f"End the job. {_checkpoint(snapshot, seconds_ago)} Then find out what changed after step "
            f"{last_finite_step}: a batch (skip it), the learning rate (lower it, clip gradients), float16 (use "
            f"bfloat16, or a lower loss scale).{first.advice if first else ''}",
            evidence=DivergenceEvidence(
                key=key or UNSET,
                num_steps=num_steps,
                nan_ranks=tuple(r.rank for r in affected),
                first_step=first.step if first else UNSET,
                first_ranks=tuple(r.rank for r in first.ranks) if first else UNSET,
            ),
        )
        return (replace(finding, step=last_finite_step),)


@dataclass(frozen=True)
class _FirstNan:
    """The first loss that was not finite, in a job in which the losses of all ranks are not finite now."""

    source: str  # one of LOSS_SOURCES
    step: int
    ranks: tuple[RankState, ...]  # the ranks that had it in this step
    later_steps: tuple[int, ...]  # the steps in which the other ranks followed, in order
    num_steps: int  # steps that all ranks have finished since then

    @property
    def has_spread(self) -> bool:
        """True if one rank had it first, and all others followed in the next step."""
        return len(self.ranks) == 1 and self.later_steps == (self.step + 1,)

    @property
    def culprits(self) -> tuple[RankState, ...]:
        """The rank at fault; nobody if that is not certain, because ranks may report at different times."""
        if len(self.ranks) != 1 or not self.later_steps:
            return ()
        return self.ranks if self.has_spread or self.source == "backward" else ()

    @property
    def text(self) -> str:
        """A part of a sentence that says which rank was first, and when the others followed."""
        if not self.culprits:
            return f"{ranks_text([r.rank for r in self.ranks])} had it first, in step {self.step}"
        first, last = self.later_steps[0], self.later_steps[-1]
        later = f"step {first}" if first == last else f"steps {first} to {last}"
        return f"{ranks_on(self.ranks)} had the first one, at step {self.step}; the others followed at {later}"

    @property
    def advice(self) -> str:
        """A sentence that says where to look first, if that is known."""
        if not self.culprits:
            return ""
        (rank,) = self.culprits
        return f" Begin with rank {rank.rank} on {rank.host}: its batch of step {self.step}, then its GPU."


def _first_nan(snapshot: Snapshot) -> _FirstNan | None:
    """Return the first loss that was not finite; None if the loss of some rank is finite or unknown.

    The loss of a backward pass is the rank's own. A job may report an average, which is NaN on all ranks at once.
    """
    if snapshot.num_missing or snapshot.unwatched:
        return None
    ranks = snapshot.ranks
    source = next((s for s in LOSS_SOURCES if all(s in r.not_finite_since for r in ranks)), "")
    steps = [step for r in ranks if (step := r.not_finite_since.get(source)) is not None]
    if not steps or len(steps) < len(ranks):
        return None
    step = min(steps)
    return _FirstNan(
        source,
        step,
        ranks=tuple(r for r in ranks if r.not_finite_since[source] == step),
        later_steps=tuple(sorted({*steps} - {step})),
        num_steps=min(r.step for r in ranks) - step,
    )


def _checkpoint(snapshot: Snapshot, seconds_ago: float) -> str:
    """Return a sentence that says which checkpoint to restart from, as far as it is known."""
    age = checkpoint_seconds(snapshot.reported_ranks)
    if age is None:
        return "zmon saw no checkpoint; if there is one, restart from the last one before that step."
    if age < seconds_ago:
        return f"The last checkpoint was saved {age:.0f} s ago, after that step: restart from the one before."
    return f"Restart from the last checkpoint, {age:.0f} s old: the work since then is lost."
