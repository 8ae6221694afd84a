"""Writes the pages of docs/ that follow from the code; `make check` fails where one is out of date."""

from __future__ import annotations

from pathlib import Path

from zmon.metrics import SPECS, STEP_HISTOGRAM

DOCS = Path(__file__).parents[1] / "docs"


def metrics_page() -> str:
    """Every metric with its type, labels and meaning."""
    rows = [
        f"| `{name}` | {spec.kind} | {', '.join(f'`{label}`' for label in spec.labels)} | {spec.help} |"
        for name, spec in SPECS.items()
    ]
    rows.append(f"| `{STEP_HISTOGRAM}` | histogram | `job_id` | Duration of the job's steps, 1 ms × 2^k, k = 0…16. |")
    head = [
        "# Metrics",
        "",
        "Generated from `zmon/metrics/names.py` by `make generate`. Base units only.",
        "What is unknown has no series, not a 0.",
        "The agent exports the newest attempt of a job, until 30 s after its end; jobs and findings come from the hub.",
        "",
        "| metric | type | labels | what it tells |",
        "|---|---|---|---|",
    ]
    return "\n".join([*head, *rows]) + "\n"


if __name__ == "__main__":
    (DOCS / "metrics.md").write_text(metrics_page())
