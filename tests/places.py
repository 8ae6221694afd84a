"""Where the repository lies, whatever folder a test is in."""

from pathlib import Path

REPOSITORY = Path(__file__).parents[1]
