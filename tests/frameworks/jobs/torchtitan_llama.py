"""Train a tiny Llama with torchtitan and FSDP2; torchtitan validates and saves in the middle.

torchtitan is for GPUs, so the script replaces some parts. The device is the processor, which gets the functions of CUDA
about memory. torch's plain attention replaces flex attention, which has no backward pass on processors. The script
makes the tokenizer and the data. Model, sharding, optimizer, loop, validation and checkpoints are torchtitan's.

Usage: `torchrun --nproc-per-node 2 torchtitan_llama.py OUT`.
"""

import json
import os
import sys
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import MagicMock

import torch._utils
from torch.nn.functional import scaled_dot_product_attention

torch._utils._get_available_device_type = lambda: "cpu"
torch.cpu.get_device_name = lambda _: "cpu"
torch.cpu.get_device_properties = lambda _: SimpleNamespace(total_memory=2**30)
torch.cpu.memory_stats = lambda _: {}
torch.cpu.reset_peak_memory_stats = torch.cpu.empty_cache = lambda: None
# Kernels for mixtures of experts need triton, which is for GPUs. This model has no experts.
sys.modules["torchtitan.distributed.minimal_async_ep.kernels"] = MagicMock()

from counting import Count  # noqa: E402
from tokenizers import Tokenizer, models, pre_tokenizers  # noqa: E402
from torch.distributed.fsdp import FSDPModule  # noqa: E402
from torchtitan.components.validate import Validator  # noqa: E402
from torchtitan.distributed import utils as dist_utils  # noqa: E402
from torchtitan.models.common.attention import FlexAttention  # noqa: E402
from torchtitan.models.llama3.config_registry import llama3_debugmodel  # noqa: E402
from torchtitan.trainer import Trainer  # noqa: E402

STEPS = 160
MIDDLE = 60  # torchtitan validates and saves each time after so many steps
LENGTH = 32  # tokens per sample


def plain_attention(q, k, v, *, scale, enable_gqa, **_):
    """Return the result of flex attention for a batch of one document."""
    return scaled_dot_product_attention(q, k, v, is_causal=True, scale=scale, enable_gqa=enable_gqa), None


original_set_factor = FSDPModule.set_gradient_divide_factor


def divide_after_sum(self, factor: float) -> None:
    """Divide the gradients after the reduction. NCCL can divide inside the reduction, and gloo cannot."""
    self.set_force_sum_reduction_for_comms(True)
    original_set_factor(self, factor)


def write_data(folder: Path) -> None:
    """Write a tokenizer of letters and a file of texts, as torchtitan reads them."""
    letters = "abcdefghijklmnopqrstuvwxyz "
    vocabulary = {word: number for number, word in enumerate(["<unk>", "<s>", "</s>", *letters])}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Split("", "isolated")
    (folder / "tokenizer").mkdir(parents=True)
    (folder / "data").mkdir()
    tokenizer.save(str(folder / "tokenizer/tokenizer.json"))
    config = {"bos_token": "<s>", "eos_token": "</s>"}
    (folder / "tokenizer/tokenizer_config.json").write_text(json.dumps(config))
    lines = [json.dumps({"text": "the quick brown fox jumps over the lazy dog " * 4})] * 64
    (folder / "data/texts.json").write_text("\n".join(lines))


def main() -> None:
    count = Count(sys.argv[1])
    dist_utils.set_pg_timeouts = lambda **_: None  # it sets timeouts of NCCL
    FSDPModule.set_gradient_divide_factor = divide_after_sum
    FlexAttention.compiled_flex_attn = staticmethod(plain_attention)
    folder = count.out / f"rank-{os.environ['RANK']}"
    write_data(folder)
    os.environ["HF_HOME"] = str(folder / "cache")
    config = llama3_debugmodel()
    del config.model_spec.model.layers[2:]
    config.dump_folder = str(count.out / "dump")
    config.hf_assets_path = str(folder / "tokenizer")
    config.dataloader.dataset_path = str(folder / "data")
    config.training.local_batch_size, config.training.seq_len, config.training.steps = 2, LENGTH, STEPS
    config.training.disable_cuda_graphs = True
    config.parallelism.spmd_backend = "partial_dtensor"
    config.checkpoint.enable, config.checkpoint.interval = True, MIDDLE
    config.validator.enable, config.validator.freq, config.validator.steps = True, MIDDLE, 5
    config.validator.dataloader.dataset, config.validator.dataloader.infinite = "c4_test", True
    config.validator.dataloader.dataset_path = str(folder / "data")

    class Counting(Trainer):
        def train_step(self, data_iterator) -> None:
            super().train_step(data_iterator)
            count.steps += 1

    validate = Validator.validate

    def counted_validate(self, *args, **kwargs):
        count.evaluations += 1
        return validate(self, *args, **kwargs)

    Validator.validate = counted_validate
    trainer = Counting(config)
    should_save = trainer.checkpointer._should_save

    def counted_save(*args, **kwargs):
        saves = should_save(*args, **kwargs)
        count.checkpoints += saves
        return saves

    trainer.checkpointer._should_save = counted_save
    trainer.train()
    trainer.close()
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main()
