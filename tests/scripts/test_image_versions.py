"""Tests of the list of versions of the images: what the roots need, with dependencies of dependencies."""

from scripts import image_versions
from zmon.errors import DISTRIBUTION


def test_versions_are_of_all_dependencies_without_unwanted_extras():
    versions = image_versions.installed_versions([f"{DISTRIBUTION}[dashboard]"])
    assert {"aiohttp", "yarl", "streamlit", "altair"} <= versions.keys()
    assert not versions.keys() & {DISTRIBUTION, "torch", "pytest", "textual"}


def test_file_has_a_line_for_each_package_without_the_local_part_of_its_version():
    """A package index has torch 2.13.0, whose build for processors says 2.13.0+cpu."""
    assert "+" not in image_versions.installed_versions([f"{DISTRIBUTION}[trainer]"])["torch"]
    assert image_versions.text({"b": "2", "a": "1"}).endswith("\na==1\nb==2\n")
