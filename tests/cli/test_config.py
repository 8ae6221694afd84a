"""Tests of the configuration file. Its keys are the names of the options. An invalid file is refused in one line."""

import re

import pytest

from zmon.cli import config
from zmon.cli.analyze import analyze
from zmon.cli.main import COMMANDS, cli
from zmon.errors import UsageError


@pytest.fixture
def read_config(tmp_path):
    """Return a function that reads a file with this content."""

    def read_(content):
        path = tmp_path / "zmon.yaml"
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return config.read(path, COMMANDS)

    return read_


def test_every_flag_is_a_key_with_dashes_or_underscores(read_config):
    """Check that `--ready-file` is the key `ready-file` or `ready_file`, and `--json` the key `json`."""
    for command in COMMANDS.values():
        for option in [option for option in command.params if option.opts[0].startswith("--")]:
            flag = option.opts[0].removeprefix("--")
            for key in (flag, flag.replace("-", "_")):
                defaults = read_config(f"{command.name}: {{{key}: 1}}")
                assert defaults == {command.name: {option.name: ["1"] if option.multiple else "1"}}


def test_values_are_converted_to_texts_of_the_command_line(read_config):
    defaults = read_config(
        "status: {json: true, data_dir: 5, hub: null}\nhub: {port: 9999}\nrun: {label: [a=b, c=d]}\nup:\n"
    )
    assert defaults == {
        "status": {"as_json": "True", "data_dir": "5"}, "hub": {"port": "9999"}, "run": {"labels": ["a=b", "c=d"]},
        "up": {},
    }  # fmt: skip


@pytest.mark.parametrize(
    "agent",
    [
        pytest.param("agent: &agent {host: a, data-dir: d}", id="another mapping"),
        pytest.param("agent: &agent {<<: &common {host: a}, data-dir: d}", id="a mapping that is merged itself"),
    ],
)
def test_part_of_another_mapping_may_be_changed(read_config, agent):
    defaults = read_config(f"{agent}\nup: {{<<: *agent, host: b}}")
    assert defaults["up"] == {"host": "b", "data_dir": "d"}


def test_empty_file_sets_nothing(read_config):
    assert read_config("") == {}


@pytest.mark.parametrize(
    ("content", "part"),
    [
        ("hub: [", "cannot read"),
        (b"\xff\xfe\x00", "cannot read"),
        ("- a list\n", "it is not a YAML mapping"),
        ("hub: 9999", "hub takes a mapping of options, not 9999"),
        ("hub: {port: [1, 2]}", "port of hub takes one value"),
        ("hub: {port: {a: 1}}", "port of hub takes one value"),
        ("agent: {withuot: gpu}", "unknown key 'withuot'; the keys are"),
        ("agnet: {port: 1}", "unknown key 'agnet'; the keys are"),
        ("1: {port: 1}", "unknown key 1; the keys are"),
        ("hub: {port: 1}\nagent: {}\nhub: {port: 2}", "hub is given twice"),
    ],
)
def test_invalid_file_is_refused(read_config, content, part):
    with pytest.raises(UsageError, match=r"zmon\.yaml") as refused:
        read_config(content)
    assert part in str(refused.value)


def test_options_of_a_command_that_is_not_installed_are_left_out(read_config, monkeypatch):
    content = "drill: {repeats: 3}\nhub: {port: 9999}\n"
    assert read_config(content) == {"drill": {"repeats": "3"}, "hub": {"port": "9999"}}
    monkeypatch.setattr("zmon.cli.commands._entry_points", dict)
    assert read_config(content) == {"hub": {"port": "9999"}}


def test_thresholds_are_read_as_mapping(read_config):
    settings = {"straggler": {"slower_ratio": 0.3}}
    assert read_config(f"hub: {{detectors: {settings}}}") == {"hub": {"detectors": settings}}
    assert read_config("agent: {leases: {eval_seconds: 3600}}") == {"agent": {"leases": {"eval_seconds": 3600}}}


@pytest.mark.parametrize(
    ("content", "command", "part"),
    [
        (
            "hub: {detectors: {straggler: {slower_ratoi: 0.3}}}",
            ["hub"],
            "straggler.slower_ratoi: there is no threshold",
        ),
        ("hub: {detectors: 3}", ["hub"], "detectors: it is 3, but it needs names with values"),
        ("hub: {detectors: {stall: {cut_seconds: -1}}}", ["analyze", __file__], "stall.cut_seconds: it is -1"),
        ("agent: {leases: {evil_seconds: 3600}}", ["agent"], "leases.evil_seconds: there is no threshold"),
        ("", ["hub", "--detectors", "{straggler: {slower_ratio: x}}"], "straggler.slower_ratio: it is 'x'"),
        ("", ["hub", "--detectors", "{"], "cannot read --detectors"),
        ("", ["hub", "--detectors", "{stall: 2026-02-30}"], "cannot read --detectors"),
        ("", ["hub", "--detectors", "{stall: {}, stall: {}}"], "cannot read --detectors: stall is given twice"),
    ],
)
def test_invalid_thresholds_are_refused(tmp_path, content, command, part):
    path = tmp_path / "zmon.yaml"
    path.write_text(content)
    with pytest.raises(UsageError, match=re.escape(part)):
        cli.main(["--config", str(path), *command], standalone_mode=False)


@pytest.mark.parametrize(
    ("content", "ratio"),
    [
        ("hub: {detectors: {straggler: {slower_ratio: 0.3}}}", 0.3),
        ("hub: {detectors: {straggler: {slower_ratio: 0.3}}}\nanalyze: {detectors: {}}", 0.2),
        ("analyze: {detectors: {straggler: {slower_ratio: 0.4}}}", 0.4),
    ],
)
def test_analyze_uses_thresholds_of_hub_unless_it_has_thresholds(tmp_path, monkeypatch, content, ratio):
    path = tmp_path / "zmon.yaml"
    path.write_text(content)
    used = []
    monkeypatch.setattr(analyze, "callback", lambda detectors, **_: used.extend(detectors))
    cli.main(["--config", str(path), "analyze", __file__], standalone_mode=False)
    assert next(detector.slower_ratio for detector in used if detector.name == "straggler") == ratio
