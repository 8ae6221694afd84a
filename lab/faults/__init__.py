"""The faults that drills cause in a job or in its monitor. Each takes a Scene and returns an Injection."""
