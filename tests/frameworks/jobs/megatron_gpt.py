"""Train a tiny GPT with Megatron-Core, tensor parallel over both ranks; evaluate and save in the middle.

Megatron puts its buffers on the current CUDA device and forks the state of CUDA's random numbers. This machine has no
GPU, so the script makes the processor that device, and the fork does nothing.

Usage: `torchrun --nproc-per-node 2 megatron_gpt.py OUT`.
"""

import sys
from collections.abc import Callable, Iterator
from contextlib import nullcontext

import torch
import torch.distributed as dist


def on_processor(function: Callable) -> Callable:
    """Return a function that makes its tensor on the processor if the caller wants CUDA."""
    return lambda *args, device=None, **options: function(
        *args, device="cpu" if device == "cuda" else device, **options
    )


torch.cuda.current_device = lambda: torch.device("cpu")
torch.cuda.synchronize = lambda *_: None
torch.tensor, torch.zeros = on_processor(torch.tensor), on_processor(torch.zeros)

from counting import Count  # noqa: E402
from megatron.core import dist_checkpointing, parallel_state, tensor_parallel  # noqa: E402
from megatron.core.distributed import DistributedDataParallel, DistributedDataParallelConfig  # noqa: E402
from megatron.core.distributed.finalize_model_grads import finalize_model_grads  # noqa: E402
from megatron.core.models.gpt.gpt_layer_specs import get_gpt_layer_local_spec  # noqa: E402
from megatron.core.models.gpt.gpt_model import GPTModel  # noqa: E402
from megatron.core.optimizer import OptimizerConfig, get_megatron_optimizer  # noqa: E402
from megatron.core.pipeline_parallel.schedules import get_forward_backward_func  # noqa: E402
from megatron.core.transformer import TransformerConfig  # noqa: E402

STEPS = 200
MIDDLE = 60  # the step after which the job evaluates and saves
LENGTH = 32  # tokens per sample
BATCH = 4  # samples of a micro-batch
VOCABULARY = 128


def batches() -> Iterator[torch.Tensor]:
    """Yield the same tokens on both ranks, which are parts of one model."""
    generator = torch.Generator().manual_seed(1)
    while True:
        yield torch.randint(VOCABULARY, (BATCH, LENGTH), generator=generator)


def forward_step(data: Iterator[torch.Tensor], model: torch.nn.Module) -> tuple[torch.Tensor, Callable]:
    """Return the output of a micro-batch and the function that makes its loss, as Megatron's schedules expect."""
    tokens = next(data)
    positions = torch.arange(LENGTH).expand(BATCH, LENGTH)
    mask = torch.ones(LENGTH, LENGTH).triu(1).bool()[None, None]
    losses = model(tokens, positions, mask, labels=tokens)
    return losses, lambda output: (output.mean(), {"loss": output.mean().detach()})


def main() -> None:
    dist.init_process_group("gloo")
    count = Count(sys.argv[1])
    parallel_state.initialize_model_parallel(tensor_model_parallel_size=2)
    tensor_parallel.get_cuda_rng_tracker().fork = lambda *_, **__: nullcontext()
    torch.manual_seed(0)
    config = TransformerConfig(
        num_layers=2, hidden_size=32, num_attention_heads=4, tensor_model_parallel_size=2, use_cpu_initialization=True,
        hidden_dropout=0.0, attention_dropout=0.0, gradient_accumulation_fusion=False, masked_softmax_fusion=False,
        finalize_model_grads_func=finalize_model_grads, pipeline_dtype=torch.float32,
    )  # fmt: skip
    gpt = GPTModel(config, get_gpt_layer_local_spec(), vocab_size=VOCABULARY, max_sequence_length=LENGTH)
    model = DistributedDataParallel(config, DistributedDataParallelConfig(), gpt)
    settings = OptimizerConfig(optimizer="adam", lr=1e-3, use_distributed_optimizer=False, clip_grad=0.0)
    optimizer = get_megatron_optimizer(settings, [model])
    run_schedule = get_forward_backward_func()
    data = batches()
    shape = {"num_microbatches": 2, "seq_length": LENGTH, "micro_batch_size": BATCH}
    for _ in range(STEPS):
        model.zero_grad_buffer()
        optimizer.zero_grad()
        run_schedule(forward_step_func=forward_step, data_iterator=data, model=model, forward_only=False, **shape)
        updated, *_ = optimizer.step()
        count.steps += updated
        if count.steps == MIDDLE:
            model.eval()
            with torch.no_grad():
                run_schedule(
                    forward_step_func=forward_step, data_iterator=data, model=model, forward_only=True, **shape
                )
            model.train()
            count.evaluations += 1
            folder = count.out / "checkpoint"
            folder.mkdir(exist_ok=True)
            dist_checkpointing.save(gpt.sharded_state_dict(), str(folder))
            count.checkpoints += 1
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
