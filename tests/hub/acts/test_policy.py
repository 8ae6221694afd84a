"""Tests of the policy of a site: what a rule asks for, and the line about each mistake in the file."""

from dataclasses import replace

import pytest
import yaml

from tests.hub.acts.builds import PROVEN, RULE, rule
from zmon.errors import UsageError
from zmon.hub.acts import Policy, read_policy
from zmon.schema.names import PROOFS


@pytest.fixture
def read(tmp_path):
    """Return a function that reads a policy with these rules, or with this text."""

    def read_(*rules, text=None):
        path = tmp_path / "policy.yaml"
        path.write_text(yaml.safe_dump({"rules": [*rules]}) if text is None else text)
        return read_policy(path)

    return read_


def asks(policy, finding=PROVEN, **labels):
    """Return the name of the rule that asks for an act on a job with these labels; None if there is none."""
    rule = policy.rule(finding, labels)
    return rule.name if rule else None


def test_rule_that_asks_for_an_act_observes_by_default(read):
    policy = read(RULE)
    assert asks(policy) == "frozen"
    (rule,) = policy.rules
    assert (rule.act, rule.mode, rule.override) == ("kill_culprit", "observe", "")


def test_enforced_rules_are_those_that_ask_agents():
    enforcing = [rule(name="end", act="end_job", mode="enforce"), rule(name="save", act="capture", mode="enforce")]
    assert Policy((rule(), *enforcing)).enforced == ["end"]


@pytest.mark.parametrize(
    "changes",
    [
        *({"severity": severity} for severity in ("warning", "info")),
        *({"proof": proof} for proof in ("silence", "", "stacks", "a word of a newer zmon")),
        {"cause": "compute_hang"},
        {"confidence": 0.79},
    ],
    ids=str,
)
def test_rule_asks_for_no_act_without_proof_severity_or_confidence(read, changes):
    assert asks(read(RULE), replace(PROVEN, **changes)) is None


@pytest.mark.parametrize("act", ["capture", "kill_culprit", "end_job"])
def test_rule_without_proofs_never_takes_silence(read, act):
    policy = read({**RULE, "proofs": [], "act": act})
    proofs = {proof for proof in PROOFS if asks(policy, replace(PROVEN, proof=proof))}
    assert "silence" not in proofs
    assert ("lock" in proofs) == (act != "kill_culprit")  # a lock proves that the rank is gone


@pytest.mark.parametrize(
    ("labels", "is_meant"),
    [({"team": "ads"}, True), ({"team": "search"}, True), ({"team": "ads and search"}, False), ({}, False),
     ({"team": ""}, False), ({"team": "ads", "tier": "hero"}, True)],
    ids=str,
)  # fmt: skip
def test_rule_with_labels_is_for_jobs_with_one_of_their_values(read, labels, is_meant):
    assert (asks(read({**RULE, "labels": {"team": ["ads", "search"]}}), **labels) is not None) == is_meant


def test_first_rule_that_asks_decides(read):
    ads = {**RULE, "name": "ads", "labels": {"team": "ads"}, "act": "end_job"}
    policy = read(ads, RULE)
    assert (asks(policy, team="ads"), asks(policy)) == ("ads", "frozen")


MISTAKES = {
    "it has 0 rules": {"rules": []},
    "missing required field `rules`": {},
    "unknown field `host`": {"rules": [{**RULE, "host": "node-a"}]},
    "Expected `object`": ["kill all"],
    "act has 'drain', which is none of capture": {"rules": [{**RULE, "act": "drain"}]},
    "causes has 'rank_forzen', which is none of": {"rules": [{**RULE, "causes": ["rank_forzen"]}]},
    "has no causes": {"rules": [{**RULE, "causes": []}]},
    "proofs of kill_culprit has 'silence'": {"rules": [{**RULE, "proofs": ["silence"]}]},
    "proofs of kill_culprit has 'lock'": {"rules": [{**RULE, "proofs": ["lock"]}]},
    "min_confidence is 0,": {"rules": [{**RULE, "min_confidence": 0}]},
    "override has more than 160 letters": {"rules": [{**RULE, "mode": "enforce", "override": "x" * 161}]},
    "wait_seconds is 1.9, and must be 2 to 3600": {"rules": [{**RULE, "wait_seconds": 1.9}]},
    "wait_seconds is inf": {"rules": [{**RULE, "wait_seconds": float("inf")}]},
    "min_confidence is nan": {"rules": [{**RULE, "min_confidence": float("nan")}]},
    "Invalid enum value 'force'": {"rules": [{**RULE, "mode": "force"}]},
    "has an override, but it only observes": {"rules": [{**RULE, "override": "me"}]},
    "two rules have the name frozen": {"rules": [RULE, RULE]},
    "the name '../all' of a rule": {"rules": [{**RULE, "name": "../all"}]},
    "the name '' of a rule": {"rules": [{**RULE, "name": ""}]},
    "stop_restarts is for the cause crash_loop alone": {"rules": [{**RULE, "act": "stop_restarts", "proofs": []}]},
    "is no regular expression": {"rules": [{**RULE, "labels": {"team": "("}}]},
}


@pytest.mark.parametrize("message", MISTAKES)
def test_mistake_in_the_file_is_refused_in_one_line(read, message):
    with pytest.raises(UsageError) as error:
        read(text=yaml.safe_dump(MISTAKES[message]))
    assert message in str(error.value)
    assert "\n" not in str(error.value)


def test_largest_and_least_allowed_numbers_are_read(read):
    (rule,) = read({**RULE, "min_confidence": 1, "wait_seconds": 2}).rules
    assert (rule.min_confidence, rule.wait_seconds) == (1.0, 2.0)
    (rule,) = read({**RULE, "wait_seconds": 3600}).rules
    assert rule.wait_seconds == 3600.0


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("rules: [", "it is not YAML"),
        ("!!python/object/apply:os.system ['true']", "it is not YAML"),
        ("", "Expected"),
        ("rules: 2026-02-30", "it is not YAML"),
        ("rules: [{labels: {team: ads}, labels: {}}]", "labels is given twice"),
    ],
    ids=["half a list", "code", "empty", "a date that no calendar has", "a narrowing that a later one would replace"],
)
def test_file_that_is_no_policy_is_refused_in_one_line(read, text, message):
    with pytest.raises(UsageError, match=message) as error:
        read(text=text)
    assert "\n" not in str(error.value)


def test_file_that_is_not_there_or_not_utf8_is_refused_in_one_line(tmp_path):
    with pytest.raises(UsageError, match="No such file"):
        read_policy(tmp_path / "none.yaml")
    (tmp_path / "binary.yaml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(UsageError, match="not UTF-8"):
        read_policy(tmp_path / "binary.yaml")
