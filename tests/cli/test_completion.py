"""Tests of shell completion, by click's own machinery and in shells: commands, options, and ids that a hub has."""

import os
import re
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from click.shell_completion import ShellComplete

from tests.golden.hub_scene import hub as full_hub
from tests.hub.serving import serving
from zmon.cli.main import cli

SHELLS = ("bash", "zsh", "fish")


def completions(*words):
    """Return what follows these words; the last one is incomplete."""
    items = ShellComplete(cli, {}, "zmon", "_ZMON_COMPLETE").get_completions([*words[:-1]], words[-1])
    return [item.value for item in items]


def in_a_process(*words):
    """Return what `zmon` prints for a shell, which must be nothing but completions."""
    env = {**os.environ, "_ZMON_COMPLETE": "bash_complete", "COMP_CWORD": str(len(words))}
    env["COMP_WORDS"] = " ".join(("zmon", *words))
    program = [sys.executable, "-m", "zmon"]
    done = subprocess.run(program, env=env, capture_output=True, text=True, timeout=60, check=False)
    assert done.stderr == ""
    return done.stdout.split()


@pytest.fixture
def url(tmp_path):
    """The URL of a hub that has the jobs `job`, `fresh` and `stuck`, and the incidents `abc1` and `abd2`."""
    with serving(full_hub(tmp_path)) as address:
        yield address


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("st",), ["status", "steps"]),
        (("status", "--js"), ["--json"]),
        (("completion", ""), [*SHELLS]),
        (("incident", "--by", ""), ["host"]),
    ],
)
def test_commands_options_and_choices_are_completed(words, expected):
    assert completions(*words) == expected


def test_ids_of_jobs_and_incidents_are_completed_from_the_hub(url):
    assert completions("status", "--hub", url, "--job", "") == ["job", "fresh", "stuck"]
    assert completions("status", "--hub", url, "--job", "st") == ["stuck"]
    assert completions("incident", "--hub", url, "ab") == ["abc1", "abd2"]
    assert in_a_process("status", "--hub", url, "--job", "st") == ["plain,stuck"]


def test_id_that_a_shell_would_run_is_left_out(fake_server):
    incidents = [
        {"id": name, "job_id": "j", "detector": "stall", "cause": "unknown", "severity": "info", "ranks": [],
         "hosts": [], "onset": 0.0, "detected": 0.0, "summary": ""}
        for name in ("$(reboot)", "a;b", "good-1", "`x`", "a b", "")
    ]  # fmt: skip
    server = fake_server(lambda *_: {"schema": 1, "incidents": incidents})
    assert completions("incident", "--hub", server.url, "") == ["good-1"]


@pytest.mark.parametrize(
    "options",
    [
        *(["--hub", url] for url in ("http://127.0.0.1:1", "nowhere", "http://h:bad", "http://[")),
        ["--hub", "http://127.0.0.1:1", "--http-config", "none.yaml"],
    ],
    ids=" ".join,
)
def test_completion_is_silent_without_a_hub(options):
    assert completions("status", *options, "--job", "") == []


def test_completion_ends_in_silence_if_the_hub_never_answers():
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        assert in_a_process("status", "--hub", url, "--job", "") == []


def test_process_ends_in_silence_if_asking_has_no_timeout():
    """Resolving a name has none: it takes as long as the machine's resolver wants."""
    code = (
        "import time, click; from zmon.cli.completion import ids_of_hub\n"
        "values = {'hub': 'http://h', 'data_dir': None, 'http': None}\n"
        "context = click.Context(click.Command('x')); context.params = values\n"
        "ids_of_hub(lambda hub: time.sleep(600))(context, None, '')\n"
        "print('went on')"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@pytest.mark.parametrize("shell", SHELLS)
def test_script_of_each_shell_calls_zmon(command, shell):
    code, out, err = command("completion", shell)
    assert (code, err) == (0, "")
    assert f"_ZMON_COMPLETE={shell}_complete" in out


IN_SHELL = {  # each prints what completes `zmon statu`; the functions of zsh's completion need a terminal
    "bash": 'eval "$(zmon completion bash)"; COMP_WORDS=(zmon statu); COMP_CWORD=1; _zmon_completion zmon; '
    "echo $COMPREPLY",
    "zsh": 'compdef() { }; _describe() { echo ${(P)3} }; eval "$(zmon completion zsh)"; words=(zmon statu); CURRENT=2; '
    "_zmon_completion",
    "fish": 'zmon completion fish | source; complete --do-complete "zmon statu"',
}


@pytest.mark.parametrize("shell", SHELLS)
def test_line_of_the_help_works_in_the_shell(shell, tmp_path):
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed")
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    env = {"PATH": path, "HOME": str(tmp_path), "TERM": "dumb"}
    done = subprocess.run(
        [shell, "-c", IN_SHELL[shell]], env=env, capture_output=True, text=True, timeout=60, check=False
    )
    assert re.fullmatch(r"status([:\t]Show the state .*)?", done.stdout.strip()), done
