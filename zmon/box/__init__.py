"""The black box: a rank writes what it is doing into a file that outlives it, the agent reads it.

`writer` is the rank's end, `reader` the agent's, `layout` what they agree on, `lock` tells alive from dead. Ranks
import this package, so it does not load the reader.
"""

from zmon.box.writer import DEFAULT_ROOT, BoxWriter, box_path

__all__ = ["DEFAULT_ROOT", "BoxWriter", "box_path"]
