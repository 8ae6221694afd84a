"""The YAML file of `--config`: a key is the flag's own name, and what is no such file is one line."""

import pytest

from zmon.cli import config
from zmon.cli.main import COMMANDS
from zmon.errors import UsageError


@pytest.fixture
def read(tmp_path):
    """What click takes of a file with that content."""

    def read_(content):
        path = tmp_path / "zmon.yaml"
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return config.read(path, COMMANDS)

    return read_


def test_every_flag_is_a_key_of_its_own_name(read):
    """flag = YAML key: `--ready-file` is `ready-file:` or `ready_file:`, `--json` is `json:`."""
    for command in COMMANDS:
        for option in [option for option in command.params if option.opts[0].startswith("--")]:
            flag = option.opts[0].removeprefix("--")
            for key in (flag, flag.replace("-", "_")):
                told = read(f"{command.name}: {{{key}: 1}}")
                assert told == {command.name: {option.name: ["1"] if option.multiple else "1"}}


def test_value_is_what_would_be_written_on_the_command_line(read):
    told = read("status: {json: true, data_dir: 5, hub: null}\nhub: {port: 9999}\nrun: {label: [a=b, c=d]}\nup:\n")
    assert told == {
        "status": {"as_json": "True", "data_dir": "5"}, "hub": {"port": "9999"}, "run": {"labels": ["a=b", "c=d"]},
        "up": {},
    }  # fmt: skip


def test_empty_file_says_nothing(read):
    assert read("") == {}


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ("hub: [", "cannot read"),
        (b"\xff\xfe\x00", "cannot read"),
        ("- a list\n", "holds no mapping"),
        ("hub: 9999", "hub holds no flags but 9999"),
        ("hub: {port: [1, 2]}", "port of hub takes one value"),
        ("hub: {port: {a: 1}}", "port of hub takes one value"),
        ("agent: {withuot: gpu}", "'withuot', and there is"),
        ("agnet: {port: 1}", "'agnet', and there is"),
        ("1: {port: 1}", "it has 1, and there is"),
    ],
)
def test_what_is_no_configuration_is_refused_in_a_line(read, content, says):
    with pytest.raises(UsageError, match=r"zmon\.yaml") as refused:
        read(content)
    assert says in str(refused.value)
    assert "\n" not in str(refused.value)
