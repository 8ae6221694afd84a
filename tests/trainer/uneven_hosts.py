"""Train with hosts of 1, 1 and 2 ranks: `uneven_hosts.py OPTION…`, as four ranks."""

import os

from trainer import __main__ as command

RANKS_OF_HOST = (1, 1, 2, 2)  # by rank

if __name__ == "__main__":
    os.environ["LOCAL_WORLD_SIZE"] = str(RANKS_OF_HOST[int(os.environ["RANK"])])
    command.main()
