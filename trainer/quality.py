"""Metrics of the predictions: log-loss, normalized entropy, calibration and AUC, for the last steps and for all.

An undefined metric is NaN, never 0. With equal labels, normalized entropy and AUC are undefined.

Shapes: N samples, P of them with label 1.
"""

import math
from dataclasses import dataclass

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import Tensor

WINDOW_STEPS = 50  # about a second of the demo; the normalized entropy of a single batch is noise


@dataclass(frozen=True)
class Quality:
    """The metrics of some samples."""

    samples: int
    log_loss: float  # mean
    normalized_entropy: float
    calibration: float
    auc: float = math.nan  # unknown if only sums are available


def normalized_entropy(log_loss: float, mean_label: float) -> float:
    """Return the log-loss divided by the log-loss of always predicting the mean label (He et al., ADKDD 2014).

    Lower is better. 1 equals the constant prediction. The result is NaN if all labels are equal.
    """
    if not 0 < mean_label < 1:
        return math.nan
    return log_loss / -(mean_label * math.log(mean_label) + (1 - mean_label) * math.log(1 - mean_label))


def calibration(mean_prediction: float, mean_label: float) -> float:
    """Return expected clicks ÷ clicks (He et al., ADKDD 2014). Above 1 predicts too many clicks. NaN without clicks."""
    return mean_prediction / mean_label if mean_label > 0 else math.nan


def auc(logits: Tensor, labels: Tensor) -> float:
    """Return the share of pairs in which the sample with label 1 has the higher logit: (N,), (N,). Ties count half.

    The result is exact, because pairs are counted in integers. It takes N log N time. It is NaN if all labels are equal
    or a logit is NaN.
    """
    if logits.isnan().any():
        return math.nan
    positive = labels > 0.5
    return _auc(_wins(logits[positive].sort().values, logits[~positive]), int(positive.sum()), len(labels))


def sums(logits: Tensor, labels: Tensor) -> Tensor:
    """Return the sums of samples, log-loss, labels and predictions in float64: (N,), (N,) → (4,)."""
    logits, labels = logits.double(), labels.double()
    log_loss = F.binary_cross_entropy_with_logits(logits, labels, reduction="sum")
    return torch.stack([logits.new_tensor(len(logits)), log_loss, labels.sum(), logits.sigmoid().sum()])


def quality(total: Tensor, auc: float = math.nan) -> Quality:
    """Return the metrics that follow from the result of `sums` (4,)."""
    samples, log_loss, labels, predictions = total.tolist()
    if not samples:
        return Quality(samples=0, log_loss=math.nan, normalized_entropy=math.nan, calibration=math.nan)
    mean_log_loss, mean_label = log_loss / samples, labels / samples
    return Quality(
        samples=int(samples),
        log_loss=mean_log_loss,
        normalized_entropy=normalized_entropy(mean_log_loss, mean_label),
        calibration=calibration(predictions / samples, mean_label),
        auc=auc,
    )


class RunningQuality:
    """The quality during training, from the all-reduced sums of each step's predictions."""

    def __init__(self, window_steps: int = WINDOW_STEPS) -> None:
        self._last = torch.zeros(window_steps, 4, dtype=torch.float64)  # the sums of the last steps, in a ring
        self._all = torch.zeros(4, dtype=torch.float64)  # the sums of all steps
        self._steps = torch.zeros((), dtype=torch.int64)  # number of steps; a tensor, so that checkpoints have it

    def step(self, samples: int, log_loss: float, labels: float, predictions: float) -> None:
        """Count the sums of a step."""
        step_sums = torch.tensor([samples, log_loss, labels, predictions], dtype=torch.float64)
        self._last[int(self._steps) % len(self._last)] = step_sums
        self._all += step_sums
        self._steps += 1

    def windowed(self) -> Quality:
        """Return the quality of the last steps."""
        return quality(self._last.sum(dim=0))  # not a running sum, in which one NaN would stay for ever

    def lifetime(self) -> Quality:
        """Return the quality of all steps, including those before a resume."""
        return quality(self._all)

    def state(self) -> dict[str, Tensor]:
        """Return the tensors for checkpoints, equal on every rank; a load writes into them."""
        return {"last": self._last, "all": self._all, "steps": self._steps}


class Predictions:
    """The logits and labels of this rank's samples, from which the quality over all ranks is computed.

    Ranks may have different numbers of samples.
    """

    def __init__(self, dtype: torch.dtype, device: torch.device) -> None:
        self._empty = torch.zeros(0, dtype=torch.promote_types(dtype, torch.float32), device=device)
        self._steps: list[tuple[Tensor, Tensor]] = []

    def add(self, logits: Tensor, labels: Tensor) -> None:
        """Add the logits and labels of a step: (N,), (N,)."""
        self._steps.append((logits.detach().to(self._empty), labels > 0.5))

    def quality(self) -> Quality:
        """Return the quality of the samples of all ranks. All ranks must call it. They get the same result.

        Each rank gathers the logits of all samples with label 1, because clicks are fewer than other samples. It
        compares its own logits with label 0 with them.
        """
        logits = torch.cat([self._empty, *(logits for logits, _ in self._steps)])
        positive = torch.cat([self._empty.bool(), *(labels for _, labels in self._steps)])
        total = sum((sums(*step) for step in self._steps), self._empty.new_zeros(4, dtype=torch.float64))
        dist.all_reduce(total)
        samples, log_loss, positives, _ = total.tolist()
        if math.isnan(log_loss) or not 0 < positives < samples:
            return quality(total)
        wins = _wins(_all_gather(logits[positive]).sort().values[: int(positives)], logits[~positive])
        dist.all_reduce(wins)
        return quality(total, _auc(wins, int(positives), int(samples)))


def _all_gather(values: Tensor) -> Tensor:
    """Return the values of all ranks, padded with NaN to the same number for each rank."""
    longest = torch.tensor(len(values), device=values.device)
    dist.all_reduce(longest, dist.ReduceOp.MAX)
    padded = F.pad(values, (0, int(longest) - len(values)), value=math.nan)
    gathered = [torch.empty_like(padded) for _ in range(dist.get_world_size())]
    dist.all_gather(gathered, padded)
    return torch.cat(gathered)


def _wins(positive: Tensor, negative: Tensor) -> Tensor:
    """Count the pairs in which the positive logit is higher, times two; a tie counts once. `positive` is sorted."""
    negative = negative.sort().values  # neighbours then hit the cache: a third of the time for ten million samples
    above_or_tied = len(positive) - torch.searchsorted(positive, negative)
    above = len(positive) - torch.searchsorted(positive, negative, right=True)
    return above_or_tied.sum() + above.sum()


def _auc(wins: Tensor, positives: int, samples: int) -> float:
    """Return the AUC, given the result of `_wins` and the number of samples with label 1; NaN if there is no pair."""
    pairs = positives * (samples - positives)
    return int(wins) / (2 * pairs) if pairs else math.nan
