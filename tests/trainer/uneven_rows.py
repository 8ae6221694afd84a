"""Train with another file on each rank: `uneven_rows.py OPTION…`, in which RANK is the number of the rank."""

import os
import sys

from trainer import __main__ as command

if __name__ == "__main__":
    sys.argv = [word.replace("RANK", os.environ["RANK"]) for word in sys.argv]
    command.main()
