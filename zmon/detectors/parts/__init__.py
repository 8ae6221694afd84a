"""Functions that several detectors share. Each module does one thing with a Snapshot. Pure."""
