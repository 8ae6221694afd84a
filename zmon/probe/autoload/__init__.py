"""How `zmon run` reaches every Python of a job: this directory stands first in PYTHONPATH."""

from zmon.probe.autoload.sitecustomize import AUTOLOAD, RUN_PID, launched, restore_environment, switched_off

__all__ = ["AUTOLOAD", "RUN_PID", "launched", "restore_environment", "switched_off"]
