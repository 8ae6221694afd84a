"""The root of the repository, for tests in any folder."""

from pathlib import Path

REPOSITORY = Path(__file__).parents[1]
