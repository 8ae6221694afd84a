"""Tests of the command line.

Misuse prints one line and exits with 2. A failure prints one line and exits with 1. Commands and options equal a golden
file.
"""

import fcntl
import os
import socket
import subprocess
import sys
import threading
from itertools import pairwise

import pytest
import streamlit
from aiohttp.test_utils import unused_port

import zmon
from tests.cli.one_line import assert_one_line
from tests.places import REPOSITORY
from zmon.cli.main import cli
from zmon.errors import UsageError

GOLDEN = REPOSITORY / "tests/golden/cli.txt"


@pytest.mark.parametrize(
    ("arguments", "part"),
    [
        (["nonsense"], "nonsense"),
        (["agent", "--nonsense"], "--nonsense"),
        (["agent", "--port", "many"], "many"),
        (["agent", "--port", "99999"], "99999"),
        (["agent", "--bind", "0.0.0.0"], f"({REPOSITORY}/docs/deploy/security.md)"),  # the page's path on this machine
        (["agent", "--box-dir", "/sys/zmon"], "it is on sysfs"),
        (["hub", "--bind", "10.1.2.3"], "10.1.2.3"),
        (["hub", "--agents", "node-1"], "http://"),
        (["hub", "--agents", " , "], "no agent"),
        (["hub", "--check-config", "--agents-kubernetes", "zmon/app=agent,zone=a"], "KUBERNETES_SERVICE_HOST"),
        (["hub", "--check-config", "--agents", "kubernetes:zmon/app=agent"], "KUBERNETES_SERVICE_HOST"),
        (["agent", "--check-config", "--pods-of-node", "node-1"], "KUBERNETES_SERVICE_HOST"),
        (["doctor", "--kubernetes"], "KUBERNETES_SERVICE_HOST"),
        (["doctor", "--kubernetes", "--agents-kubernetes", "zmon"], "NAMESPACE/SELECTOR"),
        (["demo", "--data", "no/such.tsv"], "no/such.tsv"),
        (["demo", "--data", "/"], "cannot train on /: it is not a regular file"),
        (["demo", "--ranks", "0"], "0"),
        (["demo", "--seconds", "-3"], "-3"),
        (["demo", "--replay", "nothing"], "recordings are dead-link, frozen-rank, lost-host, straggler"),
        (["demo", "--replay", "frozen-rank", "--ranks", "2"], "--replay trains nothing"),
        (["demo", "--replay", "frozen-rank", "--data", "rows.tsv"], "--replay trains nothing"),
        (["demo", "--replay", "frozen-rank", "--data-dir", "kept"], "--replay trains nothing"),
        (["completion", "csh"], "'bash', 'zsh', 'fish'"),
        (["--config", "no/such.yaml", "status"], "no/such.yaml"),
        (["up", "--ready-file", "/no/such/dir/ready.json"], "no such directory"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_misuse_prints_one_line_and_exits_with_2(command, monkeypatch, arguments, part):
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)  # only pods have it
    code, out, err = command(*arguments)
    assert (code, out) == (2, "")
    assert_one_line(err, part)


def test_replay_needs_no_torch(command, monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None if name == "torch" else name)
    played = []
    monkeypatch.setattr("zmon.cli.demo.play", lambda *arguments: played.append(arguments))
    assert command("demo", "--replay", "frozen-rank", "--seconds", "5").code == 0
    ((name, _, seconds),) = played
    assert (name, seconds) == ("frozen-rank", 5.0)


def test_second_stack_on_the_same_data_is_misuse(command, tmp_path):
    (tmp_path / "data").mkdir()
    with (tmp_path / "data/lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        code, _, err = command("up")
    assert code == 2
    assert_one_line(err, "is in use", "--data-dir")


def test_options_of_a_hub_are_checked_while_another_one_has_its_data(command, tmp_path):
    (tmp_path / "data").mkdir()
    (tmp_path / "agents.json").write_text('[{"targets": ["node-1:9780"]}]')
    with (tmp_path / "data/hub.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert command("hub", "--check-config").code == 0
        assert command("hub", "--check-config", "--agents-file", tmp_path / "agents.json").code == 0
        code, _, err = command("hub", "--check-config", "--agents-file", tmp_path / "none.json")
    assert code == 2
    assert_one_line(err, "No such file")


@pytest.mark.parametrize("name", ["up", "demo"])
def test_stack_gets_the_configuration_file(command, monkeypatch, tmp_path, name):
    (tmp_path / "zmon.yaml").touch()

    def refuse(config, _):
        raise UsageError(f"config_file is {config.config_file}")

    monkeypatch.setattr(f"zmon.cli.{name}.Stack", refuse)
    assert_one_line(command("--config", tmp_path / "zmon.yaml", name).err, f"config_file is {tmp_path / 'zmon.yaml'}")
    assert_one_line(command(name).err, "config_file is None")


def test_dashboard_listens_on_loopback_with_valid_streamlit_options(command, monkeypatch):
    started = []
    monkeypatch.setattr(os, "execv", lambda _, words: started.extend(words))
    monkeypatch.setattr(os, "environ", dict(os.environ))
    command("dashboard")
    options = {word.removeprefix("--"): value for word, value in pairwise(started) if word.startswith("--")}
    assert options["server.address"] == "127.0.0.1"
    assert options["runner.postScriptGC"] == "false"  # garbage collection would take half of the time of a page
    for name in options:
        streamlit.config.get_option(name)  # raises if streamlit does not have the option


@pytest.mark.parametrize(("name", "module"), [("dashboard", "streamlit"), ("demo", "torch")])
def test_missing_package_is_reported_with_install_command(command, monkeypatch, name, module):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None if name == module else name)
    code, out, err = command(name)
    assert (code, out) == (1, "")
    assert_one_line(err, f"{module} is not installed. Run {sys.executable} -m pip install 'zmon-training[")


TIMEOUT_SECONDS = 30.0  # a busy machine takes long to start Python


def spawn(tmp_path, *arguments):
    """Start `zmon …` as a process; a timer kills it if it hangs."""
    env = {k: v for k, v in os.environ.items() if not k.startswith("ZMON_")}
    env |= {"ZMON_DATA_DIR": str(tmp_path / "data"), "ZMON_BOX_DIR": str(tmp_path / "boxes")}
    process = subprocess.Popen(
        [sys.executable, "-m", "zmon", *map(str, arguments)],
        cwd=REPOSITORY, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    guard = threading.Timer(TIMEOUT_SECONDS, process.kill)
    guard.start()
    return process, guard


def outcome(process, guard):
    """Return the exit code, and stderr without the log lines of the daemon."""
    _, err = process.communicate()
    guard.cancel()
    return process.returncode, "\n".join(line for line in err.splitlines() if not line[:4].isdigit())


@pytest.mark.parametrize("name", ["agent", "hub"])
def test_taken_port_prints_one_line_and_exits_with_1(tmp_path, name):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        code, err = outcome(*spawn(tmp_path, name, "--port", port))
    assert code == 1, "it hung and was killed" if code < 0 else err
    assert_one_line(err, f"127.0.0.1:{port}", "the port is taken", "--port")


@pytest.mark.e2e  # another process could take the free port
@pytest.mark.parametrize("name", ["agent", "hub"])
def test_daemon_prints_its_address_and_ends_at_sigterm(tmp_path, name):
    port = unused_port()
    process, guard = spawn(tmp_path, name, "--port", port)
    assert process.stdout.readline() == f"zmon {name} listens on http://127.0.0.1:{port}\n"
    process.terminate()
    assert outcome(process, guard) == (0, "")


def test_commands_and_options_equal_golden_list():
    """Add a new option to tests/golden/cli.txt. Removing an option breaks the scripts of users."""
    lines = [" ".join([name, *sorted(words_of(command))]) for name, command in sorted(cli.commands.items())]
    assert lines == GOLDEN.read_text().splitlines()


def words_of(command):
    """Return the options and arguments of a command; of a group also those of its commands, and their names."""
    words = {option for parameter in command.params for option in parameter.opts}
    return words.union(*({name, *words_of(each)} for name, each in getattr(command, "commands", {}).items()))


def test_every_command_and_option_has_a_help_text():
    inner = {n: c for command in cli.commands.values() for n, c in getattr(command, "commands", {}).items()}
    for name, command in {**cli.commands, **inner}.items():
        assert command.help, name
        for parameter in command.params:
            assert parameter.param_type_name == "argument" or parameter.help, f"{name} {parameter.name}"


def test_python_m_zmon_prints_version():
    command = [sys.executable, "-m", "zmon", "--version"]
    printed = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, timeout=30, check=True).stdout
    assert zmon.__version__ in printed
