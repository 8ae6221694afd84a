"""Write the golden files of this folder again: `python -m tests.golden.write [pytest arguments]`.

This writes all goldens but the commands and the metric names, which are lists that people edit.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from tests.golden.compare import REWRITE

TESTS = Path(__file__).parents[1]
WRITERS = (TESTS / "golden", TESTS / "fixtures", TESTS / "metrics/test_pages.py")

if __name__ == "__main__":
    os.environ[REWRITE] = "1"
    arguments = sys.argv[1:] or [str(path) for path in WRITERS]
    sys.exit(pytest.main(["-p", "no:cacheprovider", *arguments]))
