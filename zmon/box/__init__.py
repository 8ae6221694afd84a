"""The black box: a file into which a rank writes its state, which the agent reads, and which outlives the rank.

`writer` is the rank's side, `reader` is the agent's side, and `layout` is the format that both share. `lock` shows
whether the rank is alive, `roots` has the directories of each user's boxes, and `rank_files` the names of the files
beside a box. Ranks import this package, so it does not load the reader.
"""

from zmon.box.writer import BoxWriter, box_path

__all__ = ["BoxWriter", "box_path"]
