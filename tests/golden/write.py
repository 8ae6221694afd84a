"""Write the golden files of this folder again: `python -m tests.golden.write [pytest arguments]`.

This writes the goldens that `check` and `check_text` of tests/golden/compare.py read. The goldens of the chart need
Helm, and those of Alertmanager need amtool. Not written: cli.txt and metric_names.txt, which people edit, and top/,
which tests/cli/top/test_top.py writes.
"""

from __future__ import annotations

import os
import sys

import pytest

from tests.golden.compare import REWRITE
from tests.places import REPOSITORY

WRITERS = (
    "tests/golden",
    "tests/fixtures",
    "tests/metrics/test_pages.py",
    "tests/deploy/alertmanager/test_examples.py",
    "tests/deploy/helm/test_chart.py::test_objects_are_those_of_the_golden",
)

if __name__ == "__main__":
    os.environ[REWRITE] = "1"
    arguments = sys.argv[1:] or [f"{REPOSITORY}/{path}" for path in WRITERS]
    sys.exit(pytest.main(["-p", "no:cacheprovider", *arguments]))
