"""The sharding plan of a run, from a file or chosen by the planner, and the job that a dry run plans.

All ranks of a run must get the same plan. Free memory differs between hosts, so the ranks all-reduce it first.
"""

import resource
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import psutil
import torch
import torch.distributed as dist

from trainer.all_to_all import PRECISIONS
from trainer.batch import shares
from trainer.config import DTYPES
from trainer.dense import DenseModel
from trainer.errors import ConfigError
from trainer.faults import same_error_on_all_ranks
from trainer.flat import FlatParameters
from trainer.optimizers import ELEMENTWISE, DenseOptimizer
from trainer.registry import KINDS
from trainer.scale.config import RunConfig
from trainer.scale.dry_run import Job
from trainer.scale.multi_hot import is_multi_hot, pooling
from trainer.scale.published import DenseWork
from trainer.scale.sharding.plan import Plan, load_plan
from trainer.scale.sharding.planner import check_fits, choose, predict
from trainer.scale.sharding.text import in_bytes
from trainer.scale.sharding.workload import Table, Workload, with_tiers
from trainer.world import World

_NO_LIMIT = 1 << 60  # bytes


def workload_of(config: RunConfig, num_ranks: int) -> Workload:
    """Return the workload of a step, the input of the planner."""
    dtype = DTYPES[config.train.dtype]
    workload = Workload(
        tables=tuple(
            Table(rows, dim, factor)
            for rows, dim, factor in zip(config.embedding.rows, config.embedding.dims, _pooling(config), strict=True)
        ),
        samples=tuple(share.size for share in shares(config.train.global_batch, num_ranks)),
        element_bytes=dtype.itemsize,
        weight_bytes=config.weight_bytes,
        forward_bytes=(PRECISIONS[config.wire.forward] or dtype).itemsize,
        backward_bytes=(PRECISIONS[config.wire.backward] or dtype).itemsize,
        shared_moments=config.optimizer.shares_moments,
        elementwise_state=config.optimizer.embedding in ELEMENTWISE,
    )
    if config.embedding.tier.folder:
        return with_tiers(workload, config.embedding.memory * num_ranks, host_room=0)
    return workload


def row_bytes(config: RunConfig, plan: Plan) -> list[int]:
    """Return the bytes of a row of each table, with its optimizer state."""
    element_bytes: int = DTYPES[config.train.dtype].itemsize
    return [
        dim * (element_bytes if KINDS[placement.kind].replicated else config.weight_bytes)
        + element_bytes * config.optimizer.state_shape((1, dim))[-1]
        for dim, placement in zip(config.embedding.dims, plan.tables, strict=True)
    ]


def check(config: RunConfig, num_ranks: int, ranks_per_host: int) -> None:
    """Raise ConfigError if kinds or a plan file do not fit the tables and ranks. `plan` checks memory later."""
    _check_kinds(config, num_ranks, ranks_per_host)
    if config.sharding.plan:
        load_plan(Path(config.sharding.plan), len(config.embedding.rows), num_ranks, ranks_per_host)


def _check_kinds(config: RunConfig, num_ranks: int, ranks_per_host: int) -> None:
    for kind in config.sharding.kinds(len(config.embedding.rows)):
        if kind in KINDS and not KINDS[kind].choices(num_ranks, ranks_per_host):
            raise ConfigError(
                f"{kind} does not fit {num_ranks} ranks",
                f"a host has {ranks_per_host} of them, so the hosts have different numbers of ranks",
                "Start as many ranks on every host, or change sharding.kind",
            )


def plan(config: RunConfig, world: World) -> Plan:
    """Return the plan with its prediction, the same on every rank. Raises ConfigError.

    The process group must exist.
    """
    sharding, workload = config.sharding, workload_of(config, world.size)
    free = _all_reduce(_free_bytes(world), dist.ReduceOp.MIN, world)
    base = _all_reduce(_base_bytes(config, world), dist.ReduceOp.MAX, world)
    kinds = sharding.kinds(len(workload.tables))
    ranks_per_host = _ranks_per_host(world, kinds)
    machine = sharding.machine(ranks_per_host)
    limit = sharding.limit(free, world.local_size, base)
    if sharding.plan:
        loaded = load_plan(Path(sharding.plan), len(workload.tables), world.size, ranks_per_host)
        selected = predict(loaded, workload, machine, base)
        check_fits(selected, limit)
    else:
        selected = choose(workload, machine, kinds, limit, base, disk_bytes=_NO_LIMIT)
    if sharding.save:
        with same_error_on_all_ranks():
            if world.rank == 0:
                selected.save(Path(sharding.save))
    return selected


def dry_run_job(config: RunConfig, num_ranks: int, ranks_per_host: int) -> Job:
    """Return the job of a dry run. Its dense layers have the operations of their matrices, without the interaction.

    The memory of the process, such as that of torch, is not counted. Without `sharding.memory_bytes` there is no limit.
    """
    _check_kinds(config, num_ranks, ranks_per_host)
    sharding, workload = config.sharding, workload_of(config, num_ranks)
    model = DenseModel(config.model, config.embedding.dims, seed=0, dtype=DTYPES[config.train.dtype])
    parameters = list(model.parameters())
    weights = [parameter for parameter in parameters if parameter.dim() == 2]
    dense = DenseWork(
        parameters=sum(parameter.numel() for parameter in parameters),
        operations=6 * sum(weight.numel() for weight in weights),  # a product forward and two backward
        activations=sum(len(weight) for weight in weights),
    )
    limit = in_bytes(sharding.memory_bytes) if sharding.memory_bytes else "no limit: sharding.memory_bytes is 0"
    return Job(
        facts=(f"machine of the keys sharding.…; memory of a rank: {limit}",),
        workload=workload,
        machine=sharding.machine(ranks_per_host),
        dense=dense,
        operations_per_second=sharding.flops,
        kinds=sharding.kinds(len(workload.tables)),
        memory_bytes=sharding.memory_bytes or _NO_LIMIT,
        host_memory_bytes=0,
        disk_bytes=_NO_LIMIT if config.embedding.tier.folder else 0,
    )


def _pooling(config: RunConfig) -> tuple[float, ...]:
    """Return the mean pooling factor of each table, the ids of a sample. A category of a Criteo row is one id."""
    num_tables, file = len(config.embedding.rows), Path(config.criteo.file)
    if not config.criteo.file:
        return config.synthetic.pooling(num_tables)
    return pooling(file) if is_multi_hot(file) else (1.0,) * num_tables


def _base_bytes(config: RunConfig, world: World) -> int:
    """Return the peak memory of a rank without tables, measured in two trial steps of the dense layers."""
    dims, dtype, device = config.embedding.dims, DTYPES[config.train.dtype], world.device
    samples = shares(config.train.global_batch, world.size)[world.rank].size
    model = DenseModel(config.model, dims, config.train.seed, dtype).to(device)
    flat = FlatParameters(model, num_sums=1, num_replicated=0, overlap=replace(config.overlap, gradients=False))
    optimizer = DenseOptimizer(config.optimizer, flat.parameter)
    for _ in range(2):
        flat.begin(flat.sums)
        pooled = torch.zeros(samples, sum(dims), dtype=dtype, device=device, requires_grad=True)
        bottom = model.bottom(torch.zeros(samples, config.model.dense_features, dtype=dtype, device=device))
        model.top(bottom, pooled).sum().backward()
        optimizer.step(0.0)
    if device.type == "cuda":
        reserved: int = torch.cuda.max_memory_reserved(device)
        return reserved
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024  # Linux counts KiB


def _ranks_per_host(world: World, kinds: Sequence[str]) -> int:
    """Return the number of ranks on each host. It is 1 if hosts differ: then each rank counts as a host of its own.

    Raises ConfigError on all ranks if a table of these kinds needs equal hosts.
    """
    smallest = _all_reduce(world.local_size, dist.ReduceOp.MIN, world)
    largest = _all_reduce(world.local_size, dist.ReduceOp.MAX, world)
    if smallest == largest:
        return largest
    if "table_row_wise" in kinds:
        raise ConfigError(
            f"table_row_wise does not fit {world.size} ranks",
            f"a host has {smallest} of them, and another one {largest}",
            "Start as many ranks on every host, or change sharding.kind",
        )
    return 1


def _free_bytes(world: World) -> int:
    """Return the free memory for the ranks of this host: of the host, or of GPUs as full as the one of this rank."""
    free: int = psutil.virtual_memory().available
    if world.device.type == "cuda":
        free = torch.cuda.mem_get_info(world.device)[0] * world.local_size
    return free


def _all_reduce(amount: int, operation: dist.ReduceOp.RedOpType, world: World) -> int:
    """Return the all-reduced amount of all ranks, which must call it together."""
    reduced = torch.tensor(amount, device=world.device)
    dist.all_reduce(reduced, operation)
    return int(reduced)
