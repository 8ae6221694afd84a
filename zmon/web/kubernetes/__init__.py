"""A small client of the Kubernetes API: list objects, and watch how they change, with the rights of a service account.

docs/dependencies.md says why zmon has its own client.
"""
