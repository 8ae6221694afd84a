"""The plan of a run: from a file, or the planner's, by what this configuration and these hosts are.

All ranks must come to the same one, so what differs between hosts, the memory that is free, is agreed on first.
"""

import resource
from dataclasses import replace
from pathlib import Path

import psutil
import torch
import torch.distributed as dist

from trainer.batch import shares
from trainer.config import DTYPES, Config
from trainer.errors import ConfigError
from trainer.exchange import PRECISIONS
from trainer.model import DenseModel, Flat
from trainer.optimizers import DenseOptimizer
from trainer.sharding import KINDS, Plan
from trainer.sharding.cost import Job, Table
from trainer.sharding.plan import load
from trainer.sharding.planner import check_fits, choose, predict
from trainer.world import World


def job_of(config: Config, num_ranks: int) -> Job:
    """What a step is, as the planner sees it."""
    element = DTYPES[config.train.dtype].itemsize
    forward, backward = (
        element if precision is None else precision.itemsize
        for precision in (PRECISIONS[config.wire.forward], PRECISIONS[config.wire.backward])
    )
    tables = tuple(
        Table(rows, config.embedding.dim, pooling)
        for rows, pooling in zip(config.embedding.rows, _pooling(config), strict=True)
    )
    samples = tuple(share.size for share in shares(config.train.global_batch, num_ranks))
    return Job(tables, samples, element, forward, backward)


def check(config: Config, num_ranks: int) -> None:
    """Refuse a plan that does not fit, before any rank waits for another; memory alone is looked at later."""
    config.sharding.kinds(len(config.embedding.rows))
    if config.sharding.plan:
        load(Path(config.sharding.plan), KINDS, len(config.embedding.rows), num_ranks)


def plan(config: Config, world: World) -> Plan:
    """The same on every rank, with its prediction. The group must have been joined. Raises ConfigError."""
    sharding, job = config.sharding, job_of(config, world.size)
    free = _agreed(_free_bytes(world), dist.ReduceOp.MIN, world)
    base = _agreed(_base_bytes(config, world), dist.ReduceOp.MAX, world)
    machine, limit = sharding.machine(world.local_size), sharding.limit(free, world.local_size, base)
    if sharding.plan:
        chosen = predict(load(Path(sharding.plan), KINDS, len(job.tables), world.size), job, machine, base)
        check_fits(chosen, limit)
    else:
        chosen = choose(job, machine, sharding.kinds(len(job.tables)), limit, base)
    if sharding.save and world.rank == 0:
        try:
            chosen.save(Path(sharding.save))
        except OSError as error:
            raise ConfigError(f"cannot write {sharding.save}", str(error.strerror), "Check sharding.save") from error
    return chosen


def _pooling(config: Config) -> tuple[float, ...]:
    """Ids a sample has of each table, the mean. A category of Criteo is one id."""
    num_tables = len(config.embedding.rows)
    return (1.0,) * num_tables if config.criteo.file else config.synthetic.pooling(num_tables)


def _base_bytes(config: Config, world: World) -> int:
    """What a rank takes beside tables, at most: told by rehearsing the dense part of two steps."""
    rows, dim, dtype, device = config.embedding.rows, config.embedding.dim, DTYPES[config.train.dtype], world.device
    samples = shares(config.train.global_batch, world.size)[world.rank].size
    model = DenseModel(config.model, len(rows), dim, config.train.seed, dtype).to(device)
    flat = Flat(model, 1, (0, dim), replace(config.overlap, gradients=False))
    optimizer = DenseOptimizer(config.optimizer, flat.parameter)
    for _ in range(2):
        flat.begin(flat.sums)
        pooled = torch.zeros(len(rows), samples, dim, dtype=dtype, device=device, requires_grad=True)
        bottom = model.bottom(torch.zeros(samples, config.model.dense_features, dtype=dtype, device=device))
        model.top(bottom, pooled.transpose(0, 1)).sum().backward()
        optimizer.step(0.0)
    if device.type == "cuda":
        reserved: int = torch.cuda.max_memory_reserved(device)
        return reserved
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def _free_bytes(world: World) -> int:
    free: int = psutil.virtual_memory().available
    if world.device.type == "cuda":
        free = torch.cuda.mem_get_info(world.device)[0] * world.local_size
    return free


def _agreed(amount: int, by: dist.ReduceOp.RedOpType, world: World) -> int:
    all_of_them = torch.tensor(amount, device=world.device)
    dist.all_reduce(all_of_them, by)
    return int(all_of_them)
