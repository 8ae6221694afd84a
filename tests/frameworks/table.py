"""The frameworks that zmon is tried with: versions, launcher, script, and the reason of each wrong cell.

`python -m tests.frameworks` plays the rows and writes `results.json`. `make generate` makes `docs/frameworks.md` from
the table and the results.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

COLUMNS = {  # column → when a cell is right
    "ranks": "each rank is seen, with its number and process, and nothing else is",
    "steps": "the steps of each rank are the optimizer updates that the framework's own callback counted",
    "phases": "each phase of the job has time, and no other phase has",
    "collectives": "count and bytes of each rank are those of torch's flight recorder; sends and receives, which it "
    "lacks with gloo, are those that the job counted",
    "evaluation": "a rank is in activity `eval` once for each of its evaluations",
    "checkpoint": "a rank that writes checkpoints is in activity `checkpoint` once for each of them",
    "clean end": "exit code 0, every rank said that it was done, and no stall and no failure was found",
    "freeze": "a rank stopped with SIGSTOP is named `rank_frozen`, by its number, and the job ends well after SIGCONT",
    "declared": "samples, operations, loss and progress that the job declares are those that zmon has",
}
TORCH_PHASES = ("data", "forward", "backward", "optimizer")


@dataclass(frozen=True)
class Environment:
    """The packages of a virtual environment, with their versions. torch is that of the project."""

    packages: tuple[str, ...] = ()
    alone: tuple[str, ...] = ()  # installed without their dependencies, which would replace a package of the project


ENVIRONMENTS = {
    "torch": Environment(),
    "huggingface": Environment(("transformers==5.24.0", "accelerate==1.15.0")),
    "lightning": Environment(("lightning==2.6.6",)),
    "deepspeed": Environment(("deepspeed==0.19.8",)),
    "ray": Environment(("ray[train]==2.60.0",)),
    # fbgemm-gpu is for CUDA; the project has fbgemm-gpu-cpu, which is the same module.
    "torchrec": Environment(
        ("torchmetrics==1.0.3", "tensordict==0.15.3", "pyre-extensions==0.0.32"), alone=("torchrec==1.8.0",)
    ),
    "torchtitan": Environment(("torchtitan==0.3.0",)),
    "megatron": Environment(("megatron-core==0.16.1",)),
    "torchft": Environment(("torchft==0.2.0",)),
    "notebook": Environment(("nbclient==0.11.0", "ipykernel==7.4.0")),
}

# Launchers: the words before the script. `{bin}` is the folder of the environment's programs.
TORCHRUN = ("{bin}/python", "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2")
PYTHON = ("{bin}/python",)
ACCELERATE = ("{bin}/accelerate", "launch", "--multi_gpu", "--num_processes", "2", "--num_machines", "1",
              "--mixed_precision", "no", "--dynamo_backend", "no", "--main_process_port", "0")  # fmt: skip


@dataclass(frozen=True)
class Row:
    """One framework, as its users start it."""

    name: str  # for `make test-frameworks ONLY=`
    title: str
    environment: str
    script: str  # in `jobs/`
    launcher: tuple[str, ...] = TORCHRUN
    arguments: tuple[str, ...] = ()
    phases: tuple[str, ...] = TORCH_PHASES  # in which the job spends time, besides `other`
    lacks: Mapping[str, str] = field(default_factory=dict)  # column → why it does not apply to the job
    wrong: Mapping[str, str] = field(default_factory=dict)  # column → why zmon is wrong, and what that hides
    env: Mapping[str, str] = field(default_factory=dict)
    note: str = ""  # how the job differs from that of a user
    not_run: str = ""  # why the row cannot run here


NOTEBOOK = Row("notebook", "`examples/frozen_rank.ipynb`", "notebook", "", PYTHON,
               lacks=dict.fromkeys(COLUMNS.keys() - {"freeze"}, "it is read for its finding"))  # fmt: skip
_UNDECLARED = {"declared": "it declares nothing"}
ROWS = (
    Row("ddp", "DistributedDataParallel", "torch", "ddp", lacks=_UNDECLARED),
    Row("fsdp2", "FSDP2", "torch", "sharded", lacks=_UNDECLARED),
    Row("dtensor", "DTensor, tensor parallel", "torch", "tensor_parallel", lacks=_UNDECLARED),
    Row("compile-ddp", "`torch.compile` of DDP", "torch", "ddp", arguments=("--compile",), lacks=_UNDECLARED),
    Row("compile-dtensor", "`torch.compile` of DTensor", "torch", "tensor_parallel", arguments=("--compile",),
        lacks=_UNDECLARED,
        note="it waits for its asynchronous save. Without that, the thread that saves stopped both ranks for seconds "
             "on a busy machine, and zmon warned of `unknown` without a culprit",
        wrong={"collectives": "those inside a compiled graph are not counted. The job seems to have fewer than "
               "it has, and their time is part of `forward` and `backward`. In a stall the flight recorder has them"}),
    Row("pipelining", "`torch.distributed.pipelining`", "torch", "pipelining", lacks=_UNDECLARED),
    Row("huggingface", "Hugging Face `Trainer`", "huggingface", "huggingface", lacks=_UNDECLARED),
    Row("huggingface-example", "`Trainer` with `examples/huggingface_callback.py`", "huggingface", "huggingface",
        arguments=("--example",)),
    Row("accelerate", "Accelerate, `accelerate launch`", "huggingface", "accelerated", ACCELERATE, lacks=_UNDECLARED),
    Row("lightning", "Lightning, its own launcher", "lightning", "lightning_fit", PYTHON, lacks=_UNDECLARED),
    Row("lightning-torchrun", "Lightning under torchrun", "lightning", "lightning_fit", lacks=_UNDECLARED),
    Row("lightning-example", "Lightning with `examples/lightning_callback.py`", "lightning", "lightning_fit", PYTHON,
        ("--example",)),
    *(
        Row(f"deepspeed-{stage}", f"DeepSpeed, ZeRO {stage}", "deepspeed", "deepspeed_zero", arguments=(f"{stage}",),
            lacks=_UNDECLARED, env={"DS_ACCELERATOR": "cpu"})
        for stage in (1, 2, 3)
    ),
    Row("ray", "Ray Train", "ray", "ray_train", PYTHON, lacks=_UNDECLARED, env={"RAY_USAGE_STATS_ENABLED": "0"}),
    Row("torchrec", "TorchRec", "torchrec", "torchrec_dlrm", lacks=_UNDECLARED),
    Row("torchtitan", "torchtitan, FSDP2", "torchtitan", "torchtitan_llama", lacks=_UNDECLARED,
        env={"TORCHDYNAMO_DISABLE": "1"},
        note="attention, kernels, the division of gradients and the monitor of memory need a GPU, so the script "
        "replaces them; nothing is compiled"),
    Row("megatron", "Megatron-Core, tensor parallel", "megatron", "megatron_gpt", lacks=_UNDECLARED,
        phases=("forward", "backward", "optimizer"),
        note="the script makes the processor its CUDA device, and has no DataLoader"),
    Row("torchft", "torchft, one replica group", "torchft", "torchft_ddp", lacks=_UNDECLARED,
        note="both ranks are of one group, so no other group is lost or comes back",
        wrong={"collectives": "it calls the methods of its process group, which zmon does not count: the reductions "
               "between replica groups are missing. Those within the group are counted"}),
    NOTEBOOK,
)  # fmt: skip
