"""Tests of the options of `zmon hub` that exclude each other."""

import pytest
from click.testing import CliRunner

from zmon.cli import hub as command
from zmon.errors import UsageError


@pytest.fixture
def started(monkeypatch):
    """The roles that were started, each with its check only."""
    roles = []
    monkeypatch.setattr(command, "serve", lambda role, *_: roles.append(role))
    return roles


def run(*arguments, **env):
    return CliRunner().invoke(command.hub, ["--check-config", *arguments], env=env)


@pytest.mark.parametrize(
    "option",
    [
        ("--collectors", "http://node-a:9781"),
        ("--shard", "0/2"),
        ("--data-dir", "/tmp/findings"),
        ("--detectors", "{}"),
        ("--max-job-labels", "4"),
    ],
    ids=lambda option: option[0],
)
def test_collector_refuses_an_option_that_only_a_hub_uses(started, option):
    error = run("--collect", *option).exception
    assert isinstance(error, UsageError)
    assert str(error).startswith(f"--collect and {option[0]} exclude each other: ")
    assert started == []


@pytest.mark.parametrize(("variable", "value"), [("ZMON_COLLECTORS", "http://node-a:9781"), ("ZMON_SHARD", "0/2")])
def test_collector_refuses_a_variable_that_gives_it_two_roles(started, variable, value):
    assert isinstance(run("--collect", **{variable: value}).exception, UsageError)
    assert started == []


def test_collector_ignores_variables_of_the_hub_on_its_host(started):
    answer = run("--collect", ZMON_DATA_DIR="/var/lib/zmon", ZMON_DETECTORS="{straggler: {slower_ratio: 0.3}}")
    assert (answer.exception, started) == (None, ["collector"])


def test_hub_has_both_options_of_a_large_cluster(started):
    answer = run("--collectors", "http://node-a:9781", "--shard", "0/2")
    assert (answer.exception, started) == (None, ["hub"])
