"""Benchmarks of the cost of monitoring and of the trainer's speed. Most modules are commands that print a table."""
