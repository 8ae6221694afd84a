"""What can be done to a job or to its monitor. Each takes a Scene and says when it struck and how to undo it."""
