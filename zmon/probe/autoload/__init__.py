"""The directory that `zmon run` puts first in PYTHONPATH, to reach every Python process of a job."""

from zmon.probe.autoload.sitecustomize import AUTOLOAD, RUN_PID, is_launched_rank, restore_environment, switched_off

__all__ = ["AUTOLOAD", "RUN_PID", "is_launched_rank", "restore_environment", "switched_off"]
