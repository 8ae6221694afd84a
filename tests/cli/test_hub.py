"""Tests of `zmon hub --shard`, which gives a hub a part of the jobs."""

import pytest
from click.testing import CliRunner

from zmon.cli import hub as command
from zmon.errors import UsageError
from zmon.schema.shard import Shard


@pytest.fixture
def started(monkeypatch):
    """The configurations of the hubs that were started. None of them serves."""
    configs = []

    class StartedHub:
        def __init__(self, config):
            configs.append(config)

        def app(self):
            """Return no application."""

    monkeypatch.setattr(command, "Hub", StartedHub)
    monkeypatch.setattr(command, "serve", lambda name, listening, make, reserved_files: make())
    return configs


def run(*arguments, **env):
    return CliRunner().invoke(command.hub, ["--check-config", *arguments], env=env).exception


def test_hub_judges_all_jobs_unless_it_has_a_shard(started):
    assert [run(), run("--shard", "1/4"), run(ZMON_SHARD="0/2")] == [None, None, None]
    assert [config.shard for config in started] == [None, Shard(1, 4), Shard(0, 2)]


def test_text_that_is_no_shard_is_refused_with_the_name_of_the_option(started):
    error = run("--shard", "4/4")
    assert isinstance(error, UsageError)
    assert str(error).startswith("--shard: '4/4' is no shard: ")
    assert started == []
