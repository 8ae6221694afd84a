"""A pickle that calls a function when it is read, for tests that no reader runs code from outside."""

import os
from collections.abc import Callable
from pathlib import Path


class EvilPickle:
    """A value whose pickle creates a folder when it is read."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __reduce__(self) -> tuple[Callable[..., None], tuple[str]]:
        return os.mkdir, (str(self.folder),)
