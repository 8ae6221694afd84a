"""The directory that `zmon run` puts first in PYTHONPATH, to reach every Python process of a job."""

from zmon.probe.autoload.sitecustomize import (
    AUTOLOAD,
    RUN_PID,
    attaches_at_once,
    restore_environment,
    switched_off,
)

__all__ = ["AUTOLOAD", "RUN_PID", "attaches_at_once", "restore_environment", "switched_off"]
