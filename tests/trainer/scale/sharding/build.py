"""A slow machine and a small table, whose costs are easy to sum by hand."""

from trainer.scale.sharding.workload import Machine, Table

MACHINE = Machine(
    memory_bandwidth=1e9, lookup_seconds=1e-6, network_bandwidth=1e6, host_bandwidth=1e5, ranks_per_host=2
)
# A vector has 32 bytes, and a row 36 with its state: a number in float32 has 4 bytes. A sample has two ids.
TABLE = Table(rows=100, dim=8, pooling=2.0)
