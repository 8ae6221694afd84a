"""The configuration file: its keys are the names of the options, and every error is one line."""

import pytest

from zmon.cli import config
from zmon.cli.analyze import analyze
from zmon.cli.main import COMMANDS, cli
from zmon.errors import UsageError


@pytest.fixture
def read(tmp_path):
    """Return a function that reads a file with this content."""

    def read_(content):
        path = tmp_path / "zmon.yaml"
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return config.read(path, COMMANDS)

    return read_


def test_every_flag_is_a_key_of_its_own_name(read):
    """Check that `--ready-file` is the key `ready-file` or `ready_file`, and `--json` the key `json`."""
    for command in COMMANDS:
        for option in [option for option in command.params if option.opts[0].startswith("--")]:
            flag = option.opts[0].removeprefix("--")
            for key in (flag, flag.replace("-", "_")):
                defaults = read(f"{command.name}: {{{key}: 1}}")
                assert defaults == {command.name: {option.name: ["1"] if option.multiple else "1"}}


def test_value_is_converted_as_on_the_command_line(read):
    defaults = read("status: {json: true, data_dir: 5, hub: null}\nhub: {port: 9999}\nrun: {label: [a=b, c=d]}\nup:\n")
    assert defaults == {
        "status": {"as_json": "True", "data_dir": "5"}, "hub": {"port": "9999"}, "run": {"labels": ["a=b", "c=d"]},
        "up": {},
    }  # fmt: skip


def test_empty_file_sets_nothing(read):
    assert read("") == {}


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
    ],
)
def test_invalid_file_is_refused_in_one_line(read, content, part):
    with pytest.raises(UsageError, match=r"zmon\.yaml") as refused:
        read(content)
    assert part in str(refused.value)
    assert "\n" not in str(refused.value)


def test_thresholds_are_a_mapping(read):
    settings = {"straggler": {"slower_ratio": 0.3}}
    assert read(f"hub: {{detectors: {settings}}}") == {"hub": {"detectors": settings}}
    assert read("agent: {leases: {eval_seconds: 3600}}") == {"agent": {"leases": {"eval_seconds": 3600}}}


@pytest.mark.parametrize(
    ("content", "command", "part"),
    [
        (
            "hub: {detectors: {straggler: {slower_ratoi: 0.3}}}",
            ["hub"],
            "detectors.straggler.slower_ratoi: there is no threshold",
        ),
        ("hub: {detectors: 3}", ["hub"], "detectors: it is 3, but it needs names with values"),
        (
            "hub: {detectors: {stall: {cut_seconds: -1}}}",
            ["analyze", __file__],
            "detectors.stall.cut_seconds: it is -1",
        ),
        ("agent: {leases: {evil_seconds: 3600}}", ["agent"], "leases.evil_seconds: there is no threshold"),
        ("", ["hub", "--detectors", "{straggler: {slower_ratio: x}}"], "straggler.slower_ratio: it is 'x'"),
        ("", ["hub", "--detectors", "{"], "cannot read --detectors"),
    ],
)
def test_invalid_thresholds_are_refused_before_anything_starts(tmp_path, content, command, part):
    path = tmp_path / "zmon.yaml"
    path.write_text(content)
    with pytest.raises(UsageError) as refused:
        cli.main(["--config", str(path), *command], standalone_mode=False)
    assert part in str(refused.value)


@pytest.mark.parametrize(
    ("content", "ratio"),
    [
        ("hub: {detectors: {straggler: {slower_ratio: 0.3}}}", 0.3),
        ("hub: {detectors: {straggler: {slower_ratio: 0.3}}}\nanalyze: {detectors: {}}", 0.2),
        ("analyze: {detectors: {straggler: {slower_ratio: 0.4}}}", 0.4),
    ],
)
def test_analyze_uses_the_thresholds_of_the_hub_unless_it_has_its_own(tmp_path, monkeypatch, content, ratio):
    path = tmp_path / "zmon.yaml"
    path.write_text(content)
    used = []
    monkeypatch.setattr(analyze, "callback", lambda detectors, **_: used.extend(detectors))
    cli.main(["--config", str(path), "analyze", __file__], standalone_mode=False)
    assert next(detector.slower_ratio for detector in used if detector.name == "straggler") == ratio
