"""Tests of the table of subcommands: each is imported only when it is used."""

import subprocess
import sys
import tomllib

import pytest

from tests.places import REPOSITORY
from zmon.cli import commands
from zmon.cli.commands import LABORATORY_COMMANDS, Commands


@pytest.fixture
def without_laboratory(monkeypatch):
    """Make the commands of other distributions disappear, as in an environment that has zmon alone."""
    monkeypatch.setattr(commands, "_entry_points", dict)


def test_each_command_has_the_name_of_the_table():
    commands = Commands()
    assert [command.name for command in commands.values()] == [*commands]


def test_commands_of_training_nodes_load_no_package_of_other_commands():
    """numpy takes 14 MiB, and starts a thread for each core; textual and mcp are not installed on a training node."""
    code = "import sys; import zmon.cli.mcp.tools; from zmon.cli.main import cli; "
    code += "[cli([name, '--help'], standalone_mode=False) for name in ('agent', 'run')]; "
    code += "print({'numpy', 'textual', 'mcp'} & {*sys.modules})"
    printed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert printed.splitlines()[-1] == "set()"


def test_commands_of_the_laboratory_are_listed_where_it_is_installed():
    assert {*LABORATORY_COMMANDS} <= {*Commands()}
    settings = tomllib.loads((REPOSITORY / "deploy/lab/pyproject.toml").read_text())
    assert {*settings["project"]["entry-points"]["zmon.commands"]} == {*LABORATORY_COMMANDS}


@pytest.mark.usefixtures("without_laboratory")
def test_commands_of_the_laboratory_are_not_listed_where_it_is_missing():
    assert {*Commands()}.isdisjoint(LABORATORY_COMMANDS)
    assert len(Commands()) == len([*Commands()]) > 10


@pytest.mark.usefixtures("without_laboratory")
@pytest.mark.parametrize("name", LABORATORY_COMMANDS)
def test_command_that_is_not_installed_says_what_to_install(command, monkeypatch, name):
    monkeypatch.setattr("zmon.cli.main.COMMANDS._loaded", {})
    code, out, err = command(name, "--help")
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert f"zmon {name} is not installed: the package zmon-lab has this command" in err
    assert f"{sys.executable} -m pip install" in err


@pytest.mark.usefixtures("without_laboratory")
def test_unknown_command_is_not_reported_as_not_installed(command):
    code, _, err = command("dril")
    assert code == 2
    assert "No such command 'dril'" in err


def test_own_commands_read_no_entry_points(command, monkeypatch):
    monkeypatch.setattr(commands, "_entry_points", lambda: pytest.fail("entry points are read"))
    assert command("status", "--help").code == 0
