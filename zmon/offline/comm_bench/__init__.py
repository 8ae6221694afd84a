"""How fast are this job's exchanges, by how much is exchanged?

`measure` is what each rank runs, `curve` makes bandwidths and latencies of it, `file` keeps them, `text` tells them.
"""

from zmon.offline.comm_bench.curve import Measured, Timed, links
from zmon.offline.comm_bench.file import read, write

__all__ = ["Measured", "Timed", "links", "read", "write"]
