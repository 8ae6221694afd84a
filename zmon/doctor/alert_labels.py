"""Checks that the hub and the loaded rules name the same labels of jobs on alerts: only such labels reach the routes.

A label that one of them lacks is on no alert, so routes that read it never match, and look healthy.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from zmon.doctor.check import Check
from zmon.doctor.prometheus import recorded_rules
from zmon.doctor.prometheus_state import PrometheusState
from zmon.format import listed
from zmon.schema.scraping import AGENT, HUB, LONGEST_SECONDS, made_for

_RULE = "zmon:finding:alert"  # its series are those of alerts on findings
_OF_FINDINGS = re.compile(r"max by\s*\(([^)]*)\)\s*\(zmon_finding\b")
_LABELS_OF_FINDINGS = {"job_id", "detector", "severity"}


def checks(declared: Sequence[str] | None, state: PrometheusState) -> list[Check]:
    """Return the checks of these names, which the hub declares; none if neither names a label, or the hub is older."""
    queries = [rule.query for group in state.groups for rule in group.rules if rule.name == _RULE]
    label_lists = [match[1].split(",") for query in queries if (match := _OF_FINDINGS.search(query))]
    if declared is None or not label_lists:
        return []
    in_rules = {name.strip() for names in label_lists for name in names} - _LABELS_OF_FINDINGS
    results = []
    if dropped := sorted({*declared} - in_rules):
        intervals = made_for(recorded_rules(state.groups))
        agents, hub = (f"{intervals.get(daemon, LONGEST_SECONDS)}s" for daemon in (AGENT, HUB))
        names = ",".join(declared)
        command = f"python -m dashboards.rules --agents {agents} --hub {hub} --alert-labels {names} --out DIR"
        result = f"the hub declares {listed(dropped)}, but the loaded rules drop it, so no route of alerts can match it"
        results.append(Check("alert labels", False, result, f"Load the rules that `{command}` makes."))
    if absent := sorted(in_rules - {*declared}):
        result = f"the loaded rules name {listed(absent)}, but the hub does not declare it, so no alert has it"
        results.append(Check("alert labels", False, result, "Add it with its values to --alert-labels of the hub."))
    if in_rules and not results:
        results.append(Check("alert labels", True, f"the hub and the loaded rules name {listed(sorted(in_rules))}"))
    return results
