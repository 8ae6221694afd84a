"""Tests of the checks of an installation: files of one distribution alone, the C edge, and a torch that was tried."""

from importlib.metadata import PackageNotFoundError

import pytest

from tests.places import REPOSITORY
from zmon.doctor import installation
from zmon.doctor.installation import (
    TRIED,
    installed_distributions,
    installed_torch,
    package,
    probe_edge,
    torch_version,
)


def test_two_distributions_with_the_same_files_are_inert():
    check = package({"zmon-training", "zmon-probe"})
    assert check.armed is False
    assert check.result.startswith("zmon-training and zmon-probe are both installed")
    assert "pip uninstall zmon-probe, then install zmon-training again" in check.next_step


@pytest.mark.parametrize(
    ("names", "remedy"),
    [
        ({"zmon", "zmon-training"}, "pip uninstall zmon, then install zmon-training again"),
        ({"zmon", "zmon-probe"}, "pip uninstall zmon, then install zmon-probe again"),
        ({"zmon", "zmon-probe", "zmon-training"}, "pip uninstall zmon zmon-probe, then install zmon-training again"),
        ({"zmon"}, "pip uninstall zmon."),  # ours is imported from a folder
    ],
)
def test_another_program_of_the_same_import_name_is_inert(names, remedy):
    check = package(names)
    assert check.armed is False
    assert check.result == "the package zmon is installed here, another program with the same import name"
    assert remedy in check.next_step


def test_missing_or_foreign_init_module_is_inert():
    check = package({"zmon-training"}, is_intact=False)
    assert check.armed is False
    assert check.result == "zmon/__init__.py is missing, or is that of another program"
    assert check.next_step == "Install zmon-training again with --force-reinstall --no-deps."
    assert package((), is_intact=False).next_step == check.next_step


def test_one_distribution_is_armed():
    check = package({"zmon-probe"})
    assert (check.armed, check.next_step) == (True, "")
    assert check.result.endswith("installed by zmon-probe")
    assert package(()).armed is None  # from a folder


def test_distributions_are_those_that_have_files_of_zmon(tmp_path, monkeypatch):
    for name, top in (("zmon-probe", "zmon"), ("zmon-training", "zmon\ntrainer"), ("other", "zmonitor")):
        folder = tmp_path / f"{name.replace('-', '_')}-1.dist-info"
        folder.mkdir()
        (folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1\n")
        (folder / "top_level.txt").write_text(top)
    monkeypatch.setattr("sys.path", [str(tmp_path)])
    assert installed_distributions() == {"zmon-probe", "zmon-training"}


def test_chosen_python_edge_is_not_inert(monkeypatch):
    monkeypatch.setenv("ZMON_EDGE", "python")
    check = probe_edge("python", is_built=True)
    assert check.armed is None
    assert check.result.endswith("because ZMON_EDGE=python")
    assert check.next_step.startswith("Unset ZMON_EDGE")


def test_missing_c_edge_says_what_to_install():
    check = probe_edge("python", is_built=False)
    assert check.armed is None
    assert "has no C edge" in check.result
    assert "C compiler" in check.next_step
    assert probe_edge("c", is_built=True).armed is True


UNTRIED = (None, f"but zmon was tried with {', '.join(TRIED)} only", "Check with a short job")
TOO_OLD = (False, "but zmon needs 2.9 or newer", "Install torch 2.9 or newer")


@pytest.mark.parametrize(
    ("installed", "armed", "result", "next_step"),
    [
        *((version, True, "zmon was tried with the installed torch", "") for version in TRIED),
        *((version, *UNTRIED) for version in ("2.13.0+cu130", "2.13.0", "99.0.0", "2.9.0", "nightly")),
        *((version, *TOO_OLD) for version in ("2.8.0", "1.13.1", "2.8.0+cpu")),
        (None, None, f"torch is not installed with zmon; zmon was tried with {', '.join(TRIED)}", ""),
    ],
)
def test_torch_is_armed_if_it_was_tried_and_inert_if_it_is_too_old(installed, armed, result, next_step):
    check = torch_version(installed)
    assert check.armed is armed
    assert result in check.result
    assert (installed or "") in check.result
    assert next_step in check.next_step
    assert bool(check.next_step) == bool(next_step)


def test_tried_versions_of_torch_have_a_row_in_the_test_matrix():
    text = (REPOSITORY / "docs/torch.md").read_text()
    assert [version for version in TRIED if f"| {version} |" not in text] == []


def test_environment_without_torch_has_no_version(monkeypatch):
    def missing(name):
        raise PackageNotFoundError(name)

    monkeypatch.setattr(installation, "version", missing)
    assert installed_torch() is None
