"""Write the golden files of this folder again: `python -m tests.golden.write [pytest arguments]`.

This writes the JSON and import goldens only; the commands and metric names are lists that people edit.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from tests.golden.compare import REWRITE

FOLDERS = (Path(__file__).parent, Path(__file__).parents[1] / "fixtures")

if __name__ == "__main__":
    os.environ[REWRITE] = "1"
    arguments = sys.argv[1:] or [str(folder) for folder in FOLDERS if folder.is_dir()]
    sys.exit(pytest.main(["-p", "no:cacheprovider", *arguments]))
