"""What watching costs: each file is a command that prints a table."""
