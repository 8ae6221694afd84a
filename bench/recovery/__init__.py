"""The time that a job loses by faults, with and without acts of zmon: `python -m bench.recovery`, and `matrix`."""
