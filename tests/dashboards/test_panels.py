"""Is every question on the page one that Prometheus understands and zmon answers?"""

import re
import subprocess
from pathlib import Path

import yaml

from dashboards import glance
from dashboards.panels import MANY_RANKS, PANELS
from zmon import metrics

RULES = Path(__file__).parents[2] / "dashboards" / "rules"


def questions() -> list[str]:
    """Every PromQL the page sends, for few ranks and for many."""
    fixed = (glance.RANKS, glance.JOBS, glance.AGENTS, glance.HEARTBEAT, glance.FIRING)
    asked = [panel.asked('a"b', 10, num_ranks) for panel in PANELS for num_ranks in (4, MANY_RANKS + 1, None)]
    return [*asked, *(promql.replace("$job", '"a"') for promql in fixed)]


def test_prometheus_understands_every_question(tmp_path):
    rules = [{"record": f"asked:{number}", "expr": promql} for number, promql in enumerate(questions())]
    file = tmp_path / "asked.yaml"
    file.write_text(yaml.safe_dump({"groups": [{"name": "asked", "rules": rules}]}))
    done = subprocess.run(["promtool", "check", "rules", file], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_every_metric_asked_for_or_alerted_on_is_one_that_zmon_exports():
    text = "\n".join([*questions(), *(str(rule["expr"]) for rule in _rules("zmon.yaml"))])
    short = {f"zmon_{name}" for group in re.findall(r"zmon_\(([^)]*)\)", text) for name in group.split("|")}
    named = short | set(re.findall(r"\bzmon_[a-z_]+[a-z]\b", text))
    assert named
    assert named <= set(metrics.SPECS)


def test_every_recorded_value_asked_for_is_one_that_a_rule_records():
    named = set(re.findall(r"\bzmon:\w+:\w+", "\n".join(questions())))
    assert named
    assert named <= {rule.get("record") for rule in _rules("hardware.yaml")}


def test_many_ranks_are_summed_up_in_three_lines():
    panel = next(panel for panel in PANELS if panel.grows)
    few, many = panel.asked("ads", 10, MANY_RANKS), panel.asked("ads", 10, MANY_RANKS + 1)
    assert few in many
    assert re.findall(r'"spread", "(\w+)"', many) == ["largest", "median", "smallest"]


def _rules(file: str) -> list[dict]:
    return [rule for group in yaml.safe_load((RULES / file).read_text())["groups"] for rule in group["rules"]]
