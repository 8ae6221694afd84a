"""The `zmon` command, isolated from the PYTHON… variables of the environment.

PYTHONPATH belongs to the job that zmon runs or watches. It may contain other versions of the packages that zmon needs.
"""

import importlib.util
import os
import signal
import sys


def main() -> None:
    """Run the command in a Python that ignores the PYTHON… variables; the environment itself does not change.

    If this Python uses them, it is replaced by one that does not. The package for jobs stays in this Python: it has
    only `zmon run`, which needs nothing but the standard library, and Python may have found it by PYTHONPATH.
    """
    if importlib.util.find_spec("zmon.cli") is None:
        from zmon.probe.command import main as command_of_jobs

        command_of_jobs()
    # The words after `run` or `watch` are those of a job, which may be "agent" as well.
    command = next((word for word in sys.argv[1:] if word in ("agent", "hub", "run", "watch")), "")
    if command in ("agent", "hub"):
        signal.signal(signal.SIGHUP, signal.SIG_IGN)  # until the daemon is ready to read its files again at SIGHUP
    if not sys.flags.ignore_environment:
        from zmon.probe.run import inherited_environment

        os.execve(sys.executable, [sys.executable, "-E", "-P", "-m", "zmon", *sys.argv[1:]], inherited_environment())
    from zmon.cli.main import main as cli

    cli()


if __name__ == "__main__":
    main()
