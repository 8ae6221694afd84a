"""Tests of the check of labels on alerts: hub and loaded rules must name the same ones."""

import pytest
import yaml

from dashboards.intervals import CLUSTER
from dashboards.rules.render import rendered, sharded
from tests.doctor.scene import healthy, rules
from zmon.doctor.prometheus_state import Rule
from zmon.doctor.rules import alert_labels

DROPPED = "the hub declares {}, but the loaded rules drop it, so no route of alerts can match it"
ABSENT = "the loaded rules name {}, but the hub does not declare it, so no alert has it"


def prometheus(names, make=rendered):
    """Return a Prometheus that has loaded the rule of alerts on findings, made for these labels."""
    groups = rules(15, 2)
    for text in make(CLUSTER, names).values():
        for group in yaml.safe_load(text)["groups"]:
            groups[0].rules += [
                Rule(rule["record"], "recording", rule["expr"], "ok")
                for rule in group["rules"]
                if rule.get("record") == "zmon:finding:alert"
            ]
    return healthy(groups=groups)


LABELS = {  # labels that the hub declares, labels that the rules name, results of the checks
    "no labels": ((), (), []),
    "an older hub": (None, ("tier",), []),
    "the same": (("tier", "team"), ("team", "tier"), [(True, "the hub and the loaded rules name team, tier")]),
    "the rules lack one": (("tier", "team"), ("team",), [(False, DROPPED.format("tier"))]),
    "the hub lacks all": ((), ("tier",), [(False, ABSENT.format("tier"))]),
    "each lacks that of the other": (
        ("owner",), ("tier",), [(False, DROPPED.format("owner")), (False, ABSENT.format("tier"))]
    ),
}  # fmt: skip


@pytest.mark.parametrize("make", [rendered, sharded])
@pytest.mark.parametrize(("declared", "in_rules", "results"), LABELS.values(), ids=LABELS)
def test_labels_that_only_one_side_names_are_inert(make, declared, in_rules, results):
    assert [(check.armed, check.result) for check in alert_labels(declared, prometheus(in_rules, make))] == results


def test_next_step_has_the_command_that_makes_the_right_rules():
    (check,) = alert_labels(("tier", "team"), prometheus(()))
    command = "python -m dashboards.rules --agents 15s --hub 2s --alert-labels tier,team --out DIR"
    assert check.next_step == f"Load the rules that `{command}` makes."


def test_rules_that_are_not_loaded_are_quiet():
    assert alert_labels(("tier",), healthy()) == []  # the check of the rules says so
