"""Predict the step time of a job on other numbers of ranks, other links, or other amounts of bytes. Pure.

`fit` learns a model from recorded sizes, `predict` and `what_if` use it, `size_table` and `expected` show the result.
`bandwidth` has the measured links, `peaks` the peak rates of devices.
"""
