"""Tests of the options of `zmon hub`: what its configuration becomes, and what is refused."""

import re
from types import SimpleNamespace

import pytest
from click.testing import CliRunner

from zmon.cli import hub as command
from zmon.cli.main import cli
from zmon.errors import UsageError
from zmon.schema.shard import Shard


@pytest.fixture
def started(monkeypatch):
    """The configurations of the hubs that were started. None of them serves."""
    configs = []
    monkeypatch.setattr(command, "Hub", lambda config: SimpleNamespace(app=lambda: configs.append(config)))
    monkeypatch.setattr(command, "serve", lambda name, listening, make_app, reserved_files: make_app())
    return configs


def run(*arguments, **env):
    """Run `zmon hub --check-config` in this process, and return its exception; None if there was none."""
    return CliRunner().invoke(command.hub, ["--check-config", *arguments], env=env).exception


def test_hub_judges_all_jobs_unless_it_has_a_shard(started):
    assert [run(), run("--shard", "1/4"), run(ZMON_SHARD="0/2")] == [None, None, None]
    assert [config.shard for config in started] == [None, Shard(1, 4), Shard(0, 2)]


def test_text_that_is_no_shard_is_refused_with_the_name_of_the_option(started):
    error = run("--shard", "4/4")
    assert isinstance(error, UsageError)
    assert str(error).startswith("--shard: '4/4' is no shard: ")
    assert started == []


@pytest.mark.parametrize("way", ["flag", "variable", "file"])
def test_labels_of_alerts_are_the_same_mapping_everywhere(started, tmp_path, way):
    text = "{team: [ads, search], owner: '[a-z]+'}"
    if way == "file":
        path = tmp_path / "zmon.yaml"
        path.write_text(f"hub: {{alert_labels: {text}}}")
        cli.main(["--config", str(path), "hub", "--check-config"], standalone_mode=False)
    else:
        assert run(*(["--alert-labels", text] if way == "flag" else []), ZMON_ALERT_LABELS=text) is None
    (config,) = started
    labels = {"team": "ads", "owner": "ann", "tier": "hero"}
    assert config.alert_labels.accepted(labels) == {"team": "ads", "owner": "ann"}


@pytest.mark.parametrize("text", ["{", "{job_id: x}", "3", "{owner: '('}"])
def test_wrong_labels_of_alerts_are_refused_with_the_key(started, text):
    error = run("--alert-labels", text)
    assert isinstance(error, UsageError)
    assert re.match(r"cannot (set alert_labels|read --alert-labels)", str(error))
    assert started == []
