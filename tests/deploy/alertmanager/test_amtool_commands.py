"""Test that the amtool commands of the pages need nothing but an Alertmanager: each is run where none answers."""

import re
import shlex
import subprocess

import pytest

from tests.places import REPOSITORY
from tests.ports import free_port
from tests.test_paths import tracked_files

PAGES = [file for file in tracked_files() if file.startswith("docs/") and file.endswith(".md")]
COMMAND = re.compile(r"\bamtool (?:--alertmanager\.url=\S+ )?((?:alert|silence) [^`\n]+)")
COMMANDS = [words for page in PAGES for words in COMMAND.findall((REPOSITORY / page).read_text())]


def test_pages_have_commands_that_add_and_query_alerts_and_that_add_a_silence():
    assert {"alert add", "alert query", "silence add"} == {" ".join(words.split()[:2]) for words in COMMANDS}


@pytest.mark.parametrize("words", COMMANDS)
def test_amtool_command_fails_only_for_lack_of_an_alertmanager(words):
    command = ["amtool", f"--alertmanager.url=http://127.0.0.1:{free_port()}", *shlex.split(words)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert "connection refused" in done.stderr
