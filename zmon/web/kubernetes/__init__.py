"""A small client of the Kubernetes API: list objects, and watch how they change, with the rights of a service account.

The reasons for an own client are in docs/dependencies.md.
"""
