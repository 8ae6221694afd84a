"""Tests of files of targets, as Prometheus reads them."""

import asyncio
import subprocess

import pytest

from zmon.errors import ZmonError
from zmon.hub.discovery.file_sd import FileTargets
from zmon.stack import find_program

JSON = '[{"targets": ["node-2:9780", "node-1:9780"], "labels": {"rack": "a"}}, {"targets": ["node-1:9780"]}]'
YAML = """
- targets: [node-1:9780]
- targets: ['node-2:9780']
  labels:
    __scheme__: https
"""


def find(pattern, scheme="http"):
    """Return the URLs of the agents in the files that match."""
    return asyncio.run(FileTargets(str(pattern), scheme).find(None))


FILES = {  # the text of a file, the scheme of its hub, and the URLs
    "JSON": (JSON, "http", ("http://node-1:9780", "http://node-2:9780")),
    "https": (JSON, "https", ("https://node-1:9780", "https://node-2:9780")),
    "YAML whose group has its own scheme": (YAML, "http", ("http://node-1:9780", "https://node-2:9780")),
    "nothing": ("[]", "http", ()),
}


@pytest.mark.parametrize(("text", "scheme", "urls"), FILES.values(), ids=FILES)
def test_targets_of_all_groups_are_found_once(tmp_path, text, scheme, urls):
    (tmp_path / "agents").write_text(text)
    assert find(tmp_path / "agents", scheme) == urls


@pytest.mark.parametrize(("name", "text"), [("agents.json", JSON), ("agents.yml", YAML)])
def test_prometheus_accepts_the_same_file(tmp_path, name, text):
    (tmp_path / name).write_text(text)
    scrape = f"scrape_configs: [{{job_name: zmon-agent, file_sd_configs: [{{files: [{tmp_path / name}]}}]}}]\n"
    (tmp_path / "prometheus.yml").write_text(scrape)
    command = [find_program("promtool"), "check", "config", str(tmp_path / "prometheus.yml")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
    assert done.returncode == 0, done.stderr


def test_pattern_may_match_several_files_or_none(tmp_path):
    assert find(tmp_path / "agents-*.json") == ()
    for rack in "ab":
        (tmp_path / f"agents-{rack}.json").write_text(f'[{{"targets": ["{rack}:9780"]}}]')
    assert find(tmp_path / "agents-*.json") == ("http://a:9780", "http://b:9780")


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("[{", "truncated"),
        ("", "got `null`"),  # as a shell's > leaves it before it writes
        ('[{"targets": ["node-1"]}]', "http://node-1 is not http(s)://HOST:PORT"),
        ('[{"targets": ["node-1:978O"]}]', "is not http(s)://HOST:PORT"),
        ('[{"targets": ["node-1:9780"], "labels": {"__scheme__": "htps"}}]', "htps://node-1:9780 is not"),
        ('{"targets": []}', "Expected `array`, got `object`"),
        ("- targets: {a: b}", "Expected `array`"),
        ("a: [", "flow"),
        ("- targets: ['a:9780']\n  targets: ['b:9780']", "targets is given twice"),
        ("\x00\x01", "not allowed"),
    ],
)
def test_broken_file_is_refused_with_one_line(tmp_path, text, reason):
    (tmp_path / "agents").write_text(text)
    with pytest.raises(ZmonError) as refused:
        find(tmp_path / "agents")
    assert reason in str(refused.value)
    assert "\n" not in str(refused.value)


def test_missing_file_is_refused(tmp_path):
    with pytest.raises(ZmonError, match="No such file"):
        find(tmp_path / "none.json")
