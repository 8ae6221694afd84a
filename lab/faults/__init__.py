"""The faults that drills cause in a job or in its monitor. A fault takes a Scene and returns an Injection."""
