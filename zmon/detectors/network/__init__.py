"""The network between the hosts of a job: where no data passes, and which connections are slow. Pure.

`host_links` adds up the connections of ranks by pair of hosts. `cut_off` finds the hosts that no data reaches, with
`cut_hosts`, which infers where the network is cut. `slow_links` compares how fast connections carry data.
"""

from zmon.detectors.network.cut_hosts import answering_hosts
from zmon.detectors.network.cut_off import NetworkCulprit, cut_off_host, is_physical, next_steps, stalled_network
from zmon.detectors.network.slow_links import slow_network, slow_network_steps

__all__ = [
    "NetworkCulprit", "answering_hosts", "cut_off_host", "is_physical", "next_steps", "slow_network",
    "slow_network_steps", "stalled_network",
]  # fmt: skip
