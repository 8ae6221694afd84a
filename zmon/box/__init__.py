"""The black box: a file into which a rank writes its state, which the agent reads, and which outlives the rank.

`writer` is the rank's side, `reader` is the agent's side, and `layout` is the format that both share. `lock` tells
whether the rank is alive, `roots` where the boxes of a user are, `rank_files` what lies beside them. Ranks import this
package, so it does not load the reader.
"""

from zmon.box.writer import BoxWriter, box_path

__all__ = ["BoxWriter", "box_path"]
