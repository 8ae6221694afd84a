"""A job over time: its ranks and steps aligned, its leases and baselines learned, its time accounted for. Pure."""
