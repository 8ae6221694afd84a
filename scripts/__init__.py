"""Checks and generators of the repository: `make check` runs the checks, `make generate` writes pages and tables."""
