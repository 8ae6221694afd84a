"""The time that a step loses because its ranks take unequally long, and all of them wait for the slowest. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from zmon.job.columns import exposed_by_rank, values
from zmon.schema.aligned_step import AlignedStep, StepWindow


def lost_seconds(step: AlignedStep) -> float:
    """Return the seconds by which the step would be shorter if its work were spread evenly over its ranks.

    That is the largest self time minus the mean self time. It is never more than what the ranks waited beyond the one
    that waited least: ranks that average their gradients only every tenth step lose nothing in the others.
    """
    if not step.exposed:
        return 0.0
    own, exposed = values(step.self_seconds), exposed_by_rank(step)
    return max(min(float(own.max() - own.mean()), float(exposed.mean() - exposed.min())), 0.0)


def lost_ratio(steps: Sequence[AlignedStep]) -> float | None:
    """Return the share of the time of these steps that uneven ranks lose; None if the steps have no duration."""
    seconds = sum(step.seconds for step in steps)
    return sum(map(lost_seconds, steps)) / seconds if seconds else None


@dataclass(frozen=True)
class LastingLoss:
    """A loss that has lasted over several step windows."""

    ratio: float  # share of the time that is lost, without the window that lost most
    lost_seconds: float  # in all of its windows; the one that lost most counts like the one that lost second most
    seconds: float  # since when


def lasting_loss(windows: Sequence[StepWindow], num_windows: int, least_ratio: float) -> LastingLoss | None:
    """Return the loss of the newest windows; None if it is below `least_ratio`, or if there are too few windows.

    It reaches back for as long as the windows together lose that much. The window that lost most does not count for
    the ratio: a single pause of one rank, or two seconds of contention, is in one window, and no reason to act. Nor may
    a long pause, of a whole host for example, turn a small loss into a large one.
    """
    latest = None
    total = lost = largest = second = largest_total = 0.0
    for number, window in enumerate(reversed(windows), 1):
        if window.lost_ratio is None:
            break
        seconds = window.seconds * window.num_steps
        total, lost = total + seconds, lost + window.lost_ratio * seconds
        if window.lost_ratio * seconds >= largest:
            second, largest, largest_total = largest, window.lost_ratio * seconds, seconds
        else:
            second = max(second, window.lost_ratio * seconds)
        if number < num_windows:
            continue
        ratio = (lost - largest) / (total - largest_total)
        if ratio < least_ratio:
            break
        if latest is None or window.lost_ratio >= least_ratio:  # it began with a window that lost that much
            latest = LastingLoss(ratio, lost - largest + second, total)
    return latest
