"""The URL of a run's page at its experiment tracker, which is a label of the job.

Pure. A job chooses its labels, so readers check the URL before they make it a link: http or https, a host, no user or
password, and only letters that need no escaping in HTML or a terminal, except & and '.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

RUN_PAGE = "run_page"
_URL = re.compile(
    r"https?://(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9.-]+)(:[0-9]{1,5})?"  # without a user: those letters have no @
    r"([/?#][A-Za-z0-9._~:/?#!$&*+,;=%@-]*)?"
)


def run_page(labels: Mapping[str, str]) -> str:
    """Return the URL of the run's page; "" if the job has none, or one that is no plain link to a web page."""
    url = labels.get(RUN_PAGE, "")
    return url if _URL.fullmatch(url) else ""
