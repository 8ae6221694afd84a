"""How the training goes, for people: loss, normalized entropy and speed, a line now and then."""

import math
import time
from collections import deque
from collections.abc import Callable

WINDOW_STEPS = 50  # normalized entropy of a single batch is noise; this is about a second of the demo


def normalized_entropy(log_loss: float, mean_label: float) -> float:
    """Log-loss ÷ that of always predicting the mean label: below 1 is better than knowing only the mean.

    NaN when all labels are equal, for then there is nothing to predict. From He et al., ADKDD 2014.
    """
    if not 0 < mean_label < 1:
        return math.nan
    return log_loss / -(mean_label * math.log(mean_label) + (1 - mean_label) * math.log(1 - mean_label))


class Progress:
    """Keeps the last steps and says how it goes every `every` steps."""

    def __init__(
        self,
        every: int,
        global_batch: int,
        say: Callable[[str], None],
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        self.every = every
        self.global_batch = global_batch
        self.say = say
        self.clock = clock
        self.window: deque[tuple[float, float]] = deque(maxlen=WINDOW_STEPS)  # log-loss and mean label of a step
        self.steps = 0
        self.start = self.line_time = clock()

    def step(self, log_loss: float, mean_label: float) -> float:
        """Count a step of the global batch; returns the normalized entropy of the last steps."""
        self.window.append((log_loss, mean_label))
        self.steps += 1
        if self.steps % self.every == 0:
            seconds = (self.clock() - self.line_time) / self.every
            self.line_time = self.clock()
            self.say(f"step {self.steps}  {self._quality()}  {self._speed(seconds)}")
        return self._window_means()[1]

    def summary(self) -> str:
        """One line at the end."""
        seconds = self.clock() - self.start
        speed = self._speed(seconds / self.steps)
        return f"finished {self.steps} steps in {seconds:.1f} s: {self._quality()}  {speed}"

    def _window_means(self) -> tuple[float, float]:
        losses, labels = zip(*self.window, strict=True)
        log_loss = sum(losses) / len(losses)
        return log_loss, normalized_entropy(log_loss, sum(labels) / len(labels))

    def _quality(self) -> str:
        log_loss, entropy = self._window_means()
        return f"loss {log_loss:.4f}  normalized entropy {entropy:.4f}"

    def _speed(self, seconds_per_step: float) -> str:
        return f"{self.global_batch / seconds_per_step:,.0f} samples/s  step {seconds_per_step * 1000:.1f} ms"
