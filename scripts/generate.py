"""Write the generated documents, rules, examples and Grafana dashboards: `python -m scripts.generate`.

`make generate` runs it, and `make check` fails if a file is out of date.
"""

import json
from pathlib import Path

from dashboards import generator, grafana, rules
from dashboards.intervals import CLUSTER, ONE_MACHINE
from dashboards.rules.render import rendered
from scripts import alertmanager
from scripts.architecture_page import architecture_page
from scripts.endings_page import endings_page
from scripts.failures_page import failures_page
from scripts.frameworks_page import frameworks_page
from scripts.hangs_page import hangs_page
from scripts.imports import PROJECT
from scripts.metrics_page import metrics_page
from scripts.openapi import openapi
from scripts.settings_pages import keys_page, thresholds_page
from scripts.slowness_page import slowness_page

DOCS = PROJECT / "docs"
CHART = PROJECT / "helm" / "zmon" / "files"


def main() -> None:
    """Write all files."""
    documents = {
        "architecture.md": architecture_page((DOCS / "architecture.md").read_text()),
        "endings.md": endings_page(),
        "failures.md": failures_page(),
        "frameworks.md": frameworks_page(),
        "hangs.md": hangs_page(),
        "slowness.md": slowness_page(),
        "metrics.md": metrics_page(),
        "thresholds.md": thresholds_page(),
        "trainer-keys.md": keys_page(),
        "openapi.json": json.dumps(openapi(), indent=1, ensure_ascii=False) + "\n",
    }
    generator.write(documents, DOCS)
    generator.write(alertmanager.examples(), PROJECT / "deploy" / "alertmanager")
    generator.write(rendered(ONE_MACHINE), Path(rules.__file__).parent)
    generator.write(grafana.rendered(ONE_MACHINE), Path(grafana.__file__).parent)
    generator.write(rendered(CLUSTER), CHART / "rules")
    generator.write(grafana.rendered(CLUSTER), CHART / "grafana")


if __name__ == "__main__":
    main()
