"""HTTP, both ends: how a daemon answers and how to ask one."""
