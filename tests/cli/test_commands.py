"""Tests of the table of subcommands: each is imported only when it is used."""

import subprocess
import sys

import pytest

from zmon.cli.commands import Commands


def test_each_command_has_the_name_of_the_table():
    commands = Commands()
    assert [command.name for command in commands.values()] == [*commands]


@pytest.mark.parametrize("name", ["agent", "run"])
def test_command_on_a_node_of_a_job_loads_no_arrays(name):
    """numpy takes 14 MiB, and starts a thread for each core."""
    code = f"import sys; from zmon.cli.main import cli; cli(['{name}', '--help'], standalone_mode=False); "
    code += "print('numpy' in sys.modules)"
    printed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert printed.splitlines()[-1] == "False"
