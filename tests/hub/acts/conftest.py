"""Fixtures: the policy of a site, and a short wait of acts for their capsules."""

import pytest
import yaml
from msgspec.structs import replace

from zmon.hub import acts
from zmon.hub.acts import Policy, read_policy


@pytest.fixture
def short_capsule_wait(monkeypatch):
    """Let an act wait for its capsule for 0.3 s only."""
    monkeypatch.setattr(acts, "CAPSULE_SECONDS", 0.3)


@pytest.fixture
def policy(tmp_path_factory):
    """Return a function that reads rules as a hub reads them from a file, and returns their policy.

    Each rule waits for `seconds`, which may be less than a file may have.
    """

    def make_policy(*rules, seconds=0.1):
        path = tmp_path_factory.mktemp("policy") / "policy.yaml"
        path.write_text(yaml.safe_dump({"rules": [*rules]}))
        return Policy(tuple(replace(rule, wait_seconds=seconds) for rule in read_policy(path).rules))

    return make_policy
