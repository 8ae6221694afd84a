"""The extension module that `edge.c` becomes: the hot parts of the classes that `__init__.py` completes."""

from collections.abc import Mapping

class SampleCounter: ...
class JobInterface: ...
class Ledger: ...
class Timeline: ...

def install(
    numbers: Mapping[str, int],
    classes: tuple[type, type, type],
    sources: tuple[str, str, str],
    /,
) -> None:
    """Take the numbers of the layout by name, the classes in Python, and the names of the sources of samples."""
