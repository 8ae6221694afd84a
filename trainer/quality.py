"""How good the predictions are: log-loss, normalized entropy, calibration, AUC; of the last steps, and of all.

A figure that cannot be known is NaN, never 0: with equal labels there is nothing to predict and no order to be right.

Shapes: N samples, P of them with label 1.
"""

import math
from collections import deque
from dataclasses import dataclass

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import Tensor

WINDOW_STEPS = 50  # normalized entropy of a single batch is noise; this is about a second of the demo


@dataclass(frozen=True)
class Quality:
    """Of some samples."""

    samples: int
    log_loss: float  # mean
    normalized_entropy: float
    calibration: float
    auc: float = math.nan  # unknown where only sums are kept


def normalized_entropy(log_loss: float, mean_label: float) -> float:
    """Log-loss ÷ that of always predicting the mean label: below 1 is better than knowing only the mean.

    NaN when all labels are equal, for then there is nothing to predict. From He et al., ADKDD 2014.
    """
    if not 0 < mean_label < 1:
        return math.nan
    return log_loss / -(mean_label * math.log(mean_label) + (1 - mean_label) * math.log(1 - mean_label))


def calibration(mean_prediction: float, mean_label: float) -> float:
    """Expected clicks ÷ clicks: above 1 promises too many. NaN without a click. From He et al., ADKDD 2014."""
    return mean_prediction / mean_label if mean_label > 0 else math.nan


def auc(logits: Tensor, labels: Tensor) -> float:
    """How often a sample with label 1 is above one with label 0, a tie being half of it: (N,), (N,).

    Exact: pairs are counted in whole numbers, N log N. NaN with equal labels or a logit that is NaN.
    """
    if logits.isnan().any():
        return math.nan
    positive = labels > 0.5
    return _auc(_wins(logits[positive].sort().values, logits[~positive]), int(positive.sum()), len(labels))


def sums(logits: Tensor, labels: Tensor) -> Tensor:
    """Samples, log-loss, labels and predictions, each summed up in float64: (N,), (N,) → (4,)."""
    logits, labels = logits.double(), labels.double()
    log_loss = F.binary_cross_entropy_with_logits(logits, labels, reduction="sum")
    return torch.stack([logits.new_tensor(len(logits)), log_loss, labels.sum(), logits.sigmoid().sum()])


def quality(total: Tensor, auc: float = math.nan) -> Quality:
    """What such sums (4,) say."""
    samples, log_loss, labels, predictions = total.tolist()
    if not samples:
        return Quality(0, math.nan, math.nan, math.nan)
    log_loss, label = log_loss / samples, labels / samples
    return Quality(
        int(samples), log_loss, normalized_entropy(log_loss, label), calibration(predictions / samples, label), auc
    )


class Running:
    """The quality of training, from sums over all ranks that a step makes anyway, before it learns from its samples."""

    def __init__(self, window_steps: int = WINDOW_STEPS) -> None:
        self._last = torch.zeros(window_steps, 4, dtype=torch.float64)  # sums of the last steps, in a ring
        self._all = torch.zeros(4, dtype=torch.float64)
        self._steps = torch.zeros((), dtype=torch.int64)

    def step(self, samples: int, log_loss: float, labels: float, predictions: float) -> None:
        """Count the sums of a step."""
        of_step = torch.tensor([samples, log_loss, labels, predictions], dtype=torch.float64)
        self._last[int(self._steps) % len(self._last)] = of_step
        self._all += of_step
        self._steps += 1

    def windowed(self) -> Quality:
        """Of the last steps."""
        return quality(self._last.sum(dim=0))  # never by subtraction: one NaN would stay for good

    def lifetime(self) -> Quality:
        """Of all steps, those before a resume included."""
        return quality(self._all)

    def state(self) -> dict[str, Tensor]:
        """What a checkpoint has to keep, to be written into; the same on every rank."""
        return {"last": self._last, "all": self._all, "steps": self._steps}


class Predictions:
    """Logits and labels of this rank's samples, until somebody asks how good those of all ranks are.

    Keeps all of them, as for an evaluation, or the last steps. Ranks may have different numbers of samples, and none.
    """

    def __init__(self, dtype: torch.dtype, device: torch.device, window_steps: int | None = None) -> None:
        self._none = torch.zeros(0, dtype=torch.promote_types(dtype, torch.float32), device=device)
        self._steps: deque[tuple[Tensor, Tensor]] = deque(maxlen=window_steps)

    def add(self, logits: Tensor, labels: Tensor) -> None:
        """Those of a step: (N,), (N,)."""
        self._steps.append((logits.detach().to(self._none), labels > 0.5))

    def quality(self) -> Quality:
        """Of all ranks' samples, the same on every rank, which must all ask.

        Logits of label 1 travel and those of label 0 stay, for clicks are the fewer.
        """
        logits = torch.cat([self._none, *(logits for logits, _ in self._steps)])
        positive = torch.cat([self._none.bool(), *(labels for _, labels in self._steps)])
        total = sum((sums(*step) for step in self._steps), self._none.new_zeros(4, dtype=torch.float64))
        dist.all_reduce(total)
        samples, log_loss, positives, _ = total.tolist()
        if math.isnan(log_loss) or not 0 < positives < samples:
            return quality(total)
        wins = _wins(_of_all_ranks(logits[positive]).sort().values[: int(positives)], logits[~positive])
        dist.all_reduce(wins)
        return quality(total, _auc(wins, int(positives), int(samples)))


def _of_all_ranks(mine: Tensor) -> Tensor:
    """The values of all ranks, with NaN where one has fewer than another."""
    most = torch.tensor(len(mine), device=mine.device)
    dist.all_reduce(most, dist.ReduceOp.MAX)
    padded = F.pad(mine, (0, int(most) - len(mine)), value=math.nan)
    of_ranks = [torch.empty_like(padded) for _ in range(dist.get_world_size())]
    dist.all_gather(of_ranks, padded)
    return torch.cat(of_ranks)


def _wins(positive: Tensor, negative: Tensor) -> Tensor:
    """Pairs in which the positive one is above, times two; a tie counts one. `positive` is in order."""
    negative = negative.sort().values  # neighbours are found in the cache: a third of the time for ten million
    above_or_tied = len(positive) - torch.searchsorted(positive, negative)
    above = len(positive) - torch.searchsorted(positive, negative, right=True)
    return above_or_tied.sum() + above.sum()


def _auc(wins: Tensor, positives: int, samples: int) -> float:
    pairs = positives * (samples - positives)
    return int(wins) / (2 * pairs) if pairs else math.nan
