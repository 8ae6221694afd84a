"""Tests of the check of what ranks get: files of one distribution alone, and the C edge."""

import pytest

from zmon.doctor.installation import installed_distributions, package, probe_edge


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
