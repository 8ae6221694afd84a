"""Fixtures: the policy of a site, and acts that hardly wait for capsules."""

import pytest
import yaml
from msgspec.structs import replace

from zmon.hub import acts
from zmon.hub.acts import Policy, read_policy


@pytest.fixture
def soon(monkeypatch):
    """Let an act wait for a capsule only for a moment."""
    monkeypatch.setattr(acts, "CAPSULE_SECONDS", 0.3)


@pytest.fixture
def policy(tmp_path_factory):
    """Return a function that returns the policy of these rules, which wait for `seconds`."""

    def make_policy(*rules, seconds=0.1):
        path = tmp_path_factory.mktemp("policy") / "policy.yaml"
        path.write_text(yaml.safe_dump({"rules": [*rules]}))
        return Policy(tuple(replace(rule, wait_seconds=seconds) for rule in read_policy(path).rules))

    return make_policy
