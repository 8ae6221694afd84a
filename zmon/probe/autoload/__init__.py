"""The directory that `zmon run` puts first in PYTHONPATH, to reach every Python process of a job."""
