"""Tests of `zmon run` of the package for jobs: it has the options of the whole package, and an error is one line."""

import sys

import click
import pytest

from zmon.cli.run import run_command
from zmon.probe import command


@pytest.fixture
def start(monkeypatch, capsys):
    """Return a function that runs `zmon`; it returns the arguments of `run` or the exit code, stdout and stderr."""

    def run(*words):
        monkeypatch.setattr(sys, "argv", ["zmon", *words])
        monkeypatch.setattr(command, "run", lambda *arguments: sys.exit(arguments))
        with pytest.raises(SystemExit) as end:
            command.main()
        return end.value.code, *capsys.readouterr()

    return run


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("-- torchrun --label x train.py", (["torchrun", "--label", "x", "train.py"], None, [])),
        ("torchrun -- --job-id 3", (["torchrun", "--", "--job-id", "3"], None, [])),
        ("--job-id a --label k=v --label=l=w -- -x", (["-x"], "a", ["k=v", "l=w"])),
        ("-- -- x", (["--", "x"], None, [])),
    ],
)
def test_words_after_the_options_are_the_command(start, words, expected):
    arguments, _, _ = start("run", *words.split())
    assert arguments == expected


@pytest.mark.parametrize(
    "words", ["", "status", "run", "run --", "run --job-id", "run --job x -- y", "run --config f y"]
)
def test_misuse_is_one_line(start, words):
    code, out, err = start(*words.split())
    assert (code, out) == (2, "")
    assert err.startswith("zmon: ")
    assert err.count("\n") == 1


@pytest.mark.parametrize("name", ["watch", "agent"])
def test_other_command_says_which_package_has_it(start, name):
    code, _, err = start(name, "--", "python", "train.py")
    assert (code, err.count("\n")) == (2, 1)
    why = "zmon-probe has only `zmon run`, and the package zmon-training the other commands"
    assert err.startswith(f"zmon: zmon {name} is not installed: {why}")


def test_help_and_version_are_printed(start):
    for option, output in (("--help", "usage: zmon run"), ("--version", "zmon, version ")):
        _, out, _ = start(option)
        assert out.startswith(output)


def test_options_are_those_of_the_whole_package(start):
    _, out, _ = start("run", "--help")
    options = [option for option in run_command.params if isinstance(option, click.Option)]
    assert {option.opts[0] for option in options} == {"--job-id", "--label"}
    for option in options:
        assert f"{option.opts[0]} {option.metavar} {option.help}" in " ".join(out.split())
