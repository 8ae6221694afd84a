"""Tests of the check of torch: versions that were tried, untried, too old, or are missing."""

import json
from importlib.metadata import PackageNotFoundError

import pytest
from click.testing import CliRunner

from tests.doctor.test_node import UNUSED_URLS
from tests.places import REPOSITORY
from zmon.cli.main import cli
from zmon.doctor import installation
from zmon.doctor.installation import TRIED, installed_torch, torch_version


@pytest.mark.parametrize("installed", TRIED)
def test_tried_torch_is_armed(installed):
    check = torch_version(installed)
    assert (check.armed, check.next_step) == (True, "")
    assert installed in check.result


@pytest.mark.parametrize("installed", ["2.13.0+cu130", "2.13.0", "99.0.0", "2.9.0", "nightly"])
def test_untried_torch_is_unknown_with_the_tried_versions_and_a_next_step(installed):
    check = torch_version(installed)
    assert check.armed is None
    assert check.next_step
    assert all(version in check.result for version in (installed, *TRIED))


def test_missing_torch_is_unknown_with_the_tried_versions():
    check = torch_version(None)
    assert (check.armed, check.next_step) == (None, "")
    assert all(version in check.result for version in ("torch", *TRIED))


@pytest.mark.parametrize("installed", ["2.8.0", "1.13.1", "2.8.0+cpu"])
def test_torch_that_is_too_old_is_inert(installed):
    check = torch_version(installed)
    assert check.armed is False
    assert "2.9 or newer" in check.result
    assert "2.9 or newer" in check.next_step


def test_tried_versions_have_a_row_in_the_test_matrix():
    text = (REPOSITORY / "docs/torch.md").read_text()
    assert all(f"| {version} |" in text for version in TRIED)


def test_environment_without_torch_has_no_version(monkeypatch):
    def missing(name: str) -> str:
        raise PackageNotFoundError(name)

    monkeypatch.setattr(installation, "version", missing)
    assert installed_torch() is None


def test_doctor_prints_the_version_of_torch(tmp_path):
    answer = CliRunner().invoke(cli, ["doctor", "--json", "--box-dir", str(tmp_path), *UNUSED_URLS])
    (check,) = [check for check in json.loads(answer.output)["checks"] if check["name"] == "torch"]
    expected = torch_version(installed_torch())
    assert (check["armed"], check["found"]) == (expected.armed, expected.result)
