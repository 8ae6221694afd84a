"""Runs promtool, and returns what it complains about: an empty text if all is as it should be."""

import json
import subprocess
from collections.abc import Iterable, Mapping
from pathlib import Path


def promtool(*words: str | Path) -> str:
    """Return what promtool prints if it fails."""
    done = subprocess.run(["promtool", *words], capture_output=True, text=True, timeout=150, check=False)
    return "" if done.returncode == 0 else done.stdout + done.stderr


def complaints_about_queries(folder: Path, queries: Iterable[str]) -> str:
    """Let promtool parse PromQL."""
    rules = [{"record": f"asked:{number}", "expr": promql} for number, promql in enumerate(queries)]
    file = folder / "asked.yaml"
    file.write_text(json.dumps({"groups": [{"name": "asked", "rules": rules}]}))  # JSON is YAML
    return promtool("check", "rules", file)


def complaints_about_answers(
    folder: Path,
    series: Mapping[str, str],
    expected: Mapping[tuple[str, int], Mapping[str, float]],
    interval: str = "2s",
    **document: object,
) -> str:
    """Let promtool compare answers: for each query and second, the value of each series.

    `series`: values in promtool's notation, one in each `interval`. `document`: further keys of its file, such as
    `rule_files`.
    """
    queries = [
        {
            "expr": promql,
            "eval_time": f"{now}s",
            "exp_samples": [{"labels": labels, "value": value} for labels, value in samples.items()],
        }
        for (promql, now), samples in expected.items()
    ]
    inputs = [{"series": name, "values": values} for name, values in series.items()]
    test = {"interval": interval, "input_series": inputs, "promql_expr_test": queries}
    file = folder / "test.yaml"
    complete = {"evaluation_interval": interval, "tests": [test], **document}
    file.write_text(json.dumps(complete))  # JSON is YAML, and is written much faster
    return promtool("test", "rules", file)
