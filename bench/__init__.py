"""Benchmarks of the cost of monitoring and of the trainer's speed; most files are commands that print a table."""
