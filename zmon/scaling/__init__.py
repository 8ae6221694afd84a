"""Predicts the step time of a job on other numbers of ranks, other links, or other amounts of bytes. Pure."""
