"""The `zmon` command, kept apart from what the environment would put into its Python.

PYTHONPATH belongs to the job that zmon runs or watches, and may hold other versions of what zmon itself needs.
"""

import os
import sys


def main() -> None:
    """Start anew without the PYTHON… variables, unless that is so already. The environment stays as it is."""
    if not sys.flags.ignore_environment:
        from zmon.probe.run import inherited

        os.execve(sys.executable, [sys.executable, "-E", "-P", "-m", "zmon", *sys.argv[1:]], inherited())
    from zmon.cli.main import main as cli

    cli()


if __name__ == "__main__":
    main()
