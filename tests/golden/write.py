"""Write the golden files of this folder again: `python -m tests.golden.write [pytest arguments]`.

This writes the goldens that `check` and `check_text` of tests/golden/compare.py read. The goldens of the chart need
Helm, and those of Alertmanager need amtool. Not written: cli.txt and metric_names.txt, which people edit, and top/,
which tests/cli/top/test_top.py writes.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from tests.golden.compare import REWRITE

TESTS = Path(__file__).parents[1]
WRITERS = (
    *("golden", "fixtures", "metrics/test_pages.py", "deploy/alertmanager/test_examples.py"),
    "deploy/helm/test_chart.py::test_objects_are_those_of_the_golden",
)

if __name__ == "__main__":
    os.environ[REWRITE] = "1"
    arguments = sys.argv[1:] or [f"{TESTS}/{path}" for path in WRITERS]
    sys.exit(pytest.main(["-p", "no:cacheprovider", *arguments]))
