"""The time that faults take, with and without acts: `python -m bench.recovery`, and its matrix (see `matrix`)."""
