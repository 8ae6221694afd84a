"""Train a small GPT-2 with the Trainer of Hugging Face, which evaluates and saves in the middle.

Usage: `torchrun --nproc-per-node 2 huggingface.py OUT [--example]`. `--example`: with the callback of `examples/`.
"""

import sys
from pathlib import Path

import torch
from counting import Count
from torch.utils.data import Dataset, Subset
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainerCallback, TrainingArguments

STEPS = 200
MIDDLE = 60  # the Trainer evaluates and saves each time after so many steps
LENGTH = 32  # tokens per sample
BATCH = 4  # samples of a rank
VOCABULARY = 500


class Tokens(Dataset):
    """Samples of random tokens, equal in each run."""

    def __len__(self) -> int:
        return 4096

    def __getitem__(self, index: int) -> dict[str, torch.Tensor]:
        ids = torch.randint(0, VOCABULARY, (LENGTH,), generator=torch.Generator().manual_seed(index))
        return {"input_ids": ids, "labels": ids}


class Counting(TrainerCallback):
    """Count the updates, evaluations and checkpoints of this rank."""

    def __init__(self, count: Count) -> None:
        self.count = count

    def on_optimizer_step(self, *_: object, **__: object) -> None:
        self.count.steps += 1

    def on_evaluate(self, *_: object, **__: object) -> None:
        self.count.evaluations += 1

    def on_save(self, *_: object, **__: object) -> None:
        self.count.checkpoints += 1


def main() -> None:
    count = Count(sys.argv[1])
    callbacks = [Counting(count)]
    if "--example" in sys.argv:
        sys.path.append(str(Path(__file__).parents[3] / "examples"))
        from huggingface_callback import ZmonCallback

        callbacks.append(ZmonCallback(tokens_per_sample=LENGTH))
    arguments = TrainingArguments(
        str(count.out / "trainer"), per_device_train_batch_size=BATCH, max_steps=STEPS, eval_strategy="steps",
        eval_steps=MIDDLE, save_steps=MIDDLE, logging_steps=20, use_cpu=True, report_to=[], disable_tqdm=True,
    )  # fmt: skip
    model = GPT2LMHeadModel(GPT2Config(vocab_size=VOCABULARY, n_positions=LENGTH, n_embd=32, n_layer=2, n_head=2))
    if "--example" in sys.argv:
        flops = 6 * model.num_parameters(exclude_embeddings=True) * LENGTH * BATCH * STEPS
        gauges = ["eval_loss", "learning_rate", "loss", "progress"]
        count.declared = {"samples": BATCH * STEPS, "flops": flops, "report": gauges}
    held_out = Subset(Tokens(), range(64))
    Trainer(model, arguments, train_dataset=Tokens(), eval_dataset=held_out, callbacks=callbacks).train()
    count.rank = arguments.process_index


if __name__ == "__main__":
    main()
