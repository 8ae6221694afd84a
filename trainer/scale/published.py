"""Published models as inputs of the planner, for dry runs only: they do not fit into one machine.

The models are from ZionEX (arXiv 2104.05158). Parameters, operations of a sample and samples/s are published. A dry run
prints what is published, and what is assumed. docs/published-models.md has the sources.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import gcd

from trainer.scale.sharding.workload import Machine, Table, Workload

_SIZE_UNIT = 10**12  # the sizes of tables are proportional to this ÷ their number: whole numbers, for exact sums
_POOLING = (0.1, 1.0, 0.3, 4.0, 0.1, 1.0, 0.5, 2.0, 0.1, 0.9)  # pooling factors of tables ÷ their mean
_GLOBAL_BATCH = 65_536


@dataclass(frozen=True)
class DenseWork:
    """The dense layers of a model."""

    parameters: int
    operations: float  # floating-point operations of a sample in a step, forward and backward
    activations: int = 0  # numbers of a sample that the backward pass needs


@dataclass(frozen=True)
class PublishedModel:
    """A model with its published figures, and with what is assumed about its tables and layers."""

    name: str
    parameters: int  # published; the dense layers and all tables have exactly as many
    multiply_adds: float  # published as FLOP per sample, see docs/published-models.md
    samples_per_second: float | None  # published, on 128 GPUs
    num_tables: int
    dims: tuple[int, ...]  # dimensions of the tables, repeated
    pooling: float  # mean over the tables
    layers: int
    width: int  # of a layer
    source: str
    operations_are_published: bool = True

    @property
    def dense(self) -> DenseWork:
        """The dense layers: square matrices, and the few parameters that whole rows of tables leave over."""
        weights = self.layers * self.width**2
        rest = (self.parameters - weights) % gcd(*self.dims)
        return DenseWork(weights + rest, 2 * self.multiply_adds, self.layers * self.width)

    def tables(self) -> tuple[Table, ...]:
        """Return the tables: the k-th largest one has 1 / k of the parameters of the largest one."""
        parameters = self.parameters - self.dense.parameters
        dims = [self.dims[table % len(self.dims)] for table in range(self.num_tables)]
        sizes = [_SIZE_UNIT // number for number in range(1, self.num_tables + 1)]
        rows = [parameters * size // (sum(sizes) * dim) for size, dim in zip(sizes, dims, strict=True)]
        left_by_rounding = parameters - sum(num_rows * dim for num_rows, dim in zip(rows, dims, strict=True))
        for table in sorted(range(self.num_tables), key=lambda table: -dims[table]):
            rows[table] += left_by_rounding // dims[table]
            left_by_rounding %= dims[table]
        # Shifted by one after every ten tables, because the dimensions may repeat after ten tables too
        factors = [_POOLING[(table + table // 10) % len(_POOLING)] for table in range(self.num_tables)]
        return tuple(
            Table(num_rows, dim, self.pooling * factor)
            for num_rows, dim, factor in zip(rows, dims, factors, strict=True)
        )

    def workload(self, num_ranks: int) -> Workload:
        """Return the workload of a step, with numbers of 2 bytes in tables and on the network."""
        size, rest = divmod(_GLOBAL_BATCH, num_ranks)
        samples = tuple(size + (rank < rest) for rank in range(num_ranks))
        return Workload(self.tables(), samples, element_bytes=2, weight_bytes=2, forward_bytes=2, backward_bytes=2)

    def facts(self) -> tuple[str, str]:
        """Return a line with what is published, and a line with what is assumed."""
        published: list[str] = [f"{self.parameters:,} parameters"]
        assumed: list[str] = []
        (published if self.operations_are_published else assumed).append(
            f"{self.multiply_adds / 1e6:g} M operations per sample"
        )
        if self.samples_per_second:
            published.append(f"{self.samples_per_second / 1e6:g} M samples/s on 128 GPUs")
        dims = f"{min(self.dims)} to {max(self.dims)}" if len(set(self.dims)) > 1 else str(self.dims[0])
        assumed += [
            "operations are multiply-adds",
            f"{self.num_tables:,} tables of dimension {dims}, the k-th one with 1/k of the parameters of the first",
            f"mean pooling factor {self.pooling:g}, {min(_POOLING):g} to {max(_POOLING):g} times this for a table",
            "ids spread evenly over the rows",
            f"{self.layers} layers of {self.width} × {self.width} in float32 with one number of state",
            f"global batch {_GLOBAL_BATCH:,}",
            "float16 in tables and on the network",
        ]
        return f"published ({self.source}): {', '.join(published)}", f"assumed: {', '.join(assumed)}"


_PAPER = "arXiv 2104.05158"
_ZIONEX_A = PublishedModel(
    name="zionex-a",
    parameters=793 * 10**9,
    multiply_adds=638e6,
    samples_per_second=1.2e6,
    num_tables=1000,
    dims=(4, 64, 16, 384, 64, 32, 112, 64, 96, 92),  # from 4 to 384, 93 on average
    pooling=15,
    layers=20,
    width=3375,
    source=_PAPER,
)
_ZIONEX_I = PublishedModel(
    name="zionex-i",
    parameters=332 * 10**9,
    multiply_adds=60e6,
    samples_per_second=3.4e6,
    num_tables=100,
    dims=(92,),
    pooling=70,
    layers=43,
    width=682,
    source=_PAPER,
)
_ZIONEX_F = PublishedModel(
    name="zionex-f",
    parameters=12 * 10**12,
    multiply_adds=5e6,
    samples_per_second=1.7e6,
    num_tables=10,
    dims=(256,),
    pooling=20,
    layers=7,
    width=490,
    source=_PAPER,
)


def _first_version(model: PublishedModel, name: str, parameters: int) -> PublishedModel:
    """Return a model of the paper's first version, which publishes only the parameters; the rest is that of `model`."""
    return replace(
        model,
        name=name,
        parameters=parameters,
        samples_per_second=None,
        source=f"{_PAPER}, first version",
        operations_are_published=False,
    )


PUBLISHED: dict[str, PublishedModel] = {
    model.name: model
    for model in (
        _ZIONEX_A,
        _ZIONEX_I,
        _ZIONEX_F,
        _first_version(_ZIONEX_I, "zionex-95b", 95 * 10**9),
        _first_version(_ZIONEX_A, "zionex-845b", 845 * 10**9),
    )
}


@dataclass(frozen=True)
class Accelerator:
    """A rank's part of a machine, beside its bandwidths. docs/published-models.md has the source of each number."""

    name: str
    memory_bytes: int
    host_memory_bytes: int
    operations_per_second: float  # in dense layers
    memory_bandwidth: float
    host_memory_bandwidth: float
    network_bandwidth: float  # within a host
    host_bandwidth_per_rank: float  # between hosts
    disk_bytes: int
    disk_bandwidth: float

    def machine(self, ranks_per_host: int) -> Machine:
        """Return the machine with this number of ranks on a host; each rank adds its network interface."""
        return Machine(
            memory_bandwidth=self.memory_bandwidth,
            lookup_seconds=0.0,
            network_bandwidth=self.network_bandwidth,
            host_bandwidth=self.host_bandwidth_per_rank * ranks_per_host,
            ranks_per_host=ranks_per_host,
            host_memory_bandwidth=self.host_memory_bandwidth,
            disk_bandwidth=self.disk_bandwidth,
        )

    def facts(self) -> str:
        """Return a line with the figures of a rank."""
        return (
            f"assumed: machine {self.name}, per rank:"
            f" {self.memory_bytes / 1e9:g} GB at {self.memory_bandwidth / 1e9:g} GB/s,"
            f" {self.host_memory_bytes / 1e9:g} GB of the host at {self.host_memory_bandwidth / 1e9:g} GB/s,"
            f" {self.disk_bytes / 1e12:g} TB on a disk at {self.disk_bandwidth / 1e9:g} GB/s,"
            f" {self.operations_per_second / 1e12:g} TFLOP/s,"
            f" network {self.network_bandwidth / 1e9:g} GB/s in a host and"
            f" {self.host_bandwidth_per_rank / 1e9:g} GB/s between hosts"
        )


ZIONEX = Accelerator(
    name="zionex",
    memory_bytes=32 * 10**9,  # NVIDIA V100 SXM2
    host_memory_bytes=1_500 * 10**9 // 8,  # 1.5 TB of a node
    operations_per_second=15e12,  # 120 TFLOP/s of a node in float32
    memory_bandwidth=900e9,  # 7.2 TB/s of a node
    host_memory_bandwidth=15.75e9,  # PCIe 3.0 x16, less than the 25 GB/s of its part of the node's DRAM
    network_bandwidth=150e9,  # NVLink, one direction: 1.2 TB/s of a node
    host_bandwidth_per_rank=12.5e9,  # 4 × 200 Gb/s of a node, one direction
    disk_bytes=10**12,  # a drive of a rank, assumed
    disk_bandwidth=3e9,  # PCIe 3.0 x4
)
