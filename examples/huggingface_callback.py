"""A callback for the Trainer of Hugging Face that tells zmon what it cannot infer exactly.

zmon sees ranks, steps, phases and collectives without it. With it, samples and operations are declared and not inferred
or counted, loss and progress are in the metrics, and evaluation and saving are exact whatever writes the files:

    Trainer(..., callbacks=[ZmonCallback(tokens_per_sample=1024)])
"""

from __future__ import annotations

from contextlib import ExitStack
from typing import Any

from transformers import PreTrainedModel, TrainerCallback, TrainerControl, TrainerState, TrainingArguments

import zmon


class ZmonCallback(TrainerCallback):
    """Declare the work of each step, loss and progress, and mark evaluation and saving."""

    def __init__(self, tokens_per_sample: int, dtype: str = "float32") -> None:
        self.tokens_per_sample, self.dtype = tokens_per_sample, dtype
        self.activity = ExitStack()

    def on_train_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, model: PreTrainedModel, **_: Any
    ) -> None:
        self.samples = args.per_device_train_batch_size * args.gradient_accumulation_steps
        # 6 operations for each parameter and token: 2 forward, 4 backward (Kaplan et al. 2020).
        self.flops = 6 * model.num_parameters(exclude_embeddings=True) * self.samples * self.tokens_per_sample
        zmon.plan(steps=state.max_steps - state.global_step)  # for the time left; zmon counts from 1 in each launch

    def on_pre_optimizer_step(self, args: TrainingArguments, state: TrainerState, *_: Any, **__: Any) -> None:
        tokens = self.samples * self.tokens_per_sample
        zmon.work(samples=self.samples, tokens=tokens, flops=self.flops, dtype=self.dtype)
        zmon.report(progress=state.global_step / state.max_steps)

    def on_log(self, *_: Any, logs: dict[str, float], **__: Any) -> None:
        zmon.report(**{name: logs[name] for name in ("loss", "eval_loss", "learning_rate") if name in logs})

    def on_step_end(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any) -> None:
        if control.should_evaluate or control.should_save:
            self.activity.enter_context(zmon.activity("eval" if control.should_evaluate else "checkpoint"))

    def on_evaluate(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any) -> None:
        self.activity.close()
        if control.should_save:
            self.activity.enter_context(zmon.activity("checkpoint"))

    def on_save(self, *_: Any, **__: Any) -> None:
        self.activity.close()
