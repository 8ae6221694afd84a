"""What watching costs, and how fast the trainer is: each file is a command that prints a table."""
