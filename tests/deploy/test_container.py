"""Tests of the Containerfile without building it: versions, user, sources and commands of the images."""

import importlib.util
import re
import tomllib
from fnmatch import fnmatch

import pytest
from packaging.requirements import Requirement

from scripts.image_versions import FILE, installed_versions
from tests.deploy.containerfile import inherited, instructions, stages
from tests.places import REPOSITORY
from zmon.cli.main import cli

PATH = REPOSITORY / "deploy/container/Containerfile"
STAGES = stages(PATH)
INSTRUCTIONS = list(instructions(PATH.read_text()))
IMAGES = ("trainer", "dashboard", "zmon")
PINS = dict(line.split("==") for line in FILE.read_text().split("\n") if line and not line.startswith("#"))
PROJECT = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]


def words(stage, name):
    """Return the words of each instruction with this name that the image of a stage gets."""
    return [instruction.words for instruction in inherited(STAGES, stage) if instruction.name == name]


def test_images_are_the_targets_and_zmon_is_the_default():
    assert set(IMAGES) < set(STAGES)
    assert list(STAGES)[-1] == "zmon"


@pytest.mark.parametrize("image", IMAGES)
def test_user_is_a_number_that_is_not_root(image):
    """Kubernetes cannot check a name against runAsNonRoot. The chart has the same number."""
    assert words(image, "USER")[-1] == ("10001:10001",)
    assert "runAsUser: 10001" in (REPOSITORY / "helm/zmon/templates/_names.tpl").read_text()


def test_build_downloads_nothing_but_packages():
    assert not [instruction for instruction in INSTRUCTIONS if instruction.name == "ADD"]
    assert not re.findall(r"https?://|\b(?:curl|wget|git clone)\b", PATH.read_text())


def test_base_images_are_arguments_with_a_version_and_without_a_registry():
    defaults = dict(word.split("=") for i in INSTRUCTIONS if i.name == "ARG" for word in i.words if "=" in word)
    assert defaults.keys() == {"BUILD_BASE", "BASE"}
    for image in defaults.values():
        assert re.fullmatch(r"python:3\.\d+(-slim)?-[a-z]+", image)
    parents = {stage.parent for stage in STAGES.values()} - STAGES.keys()
    assert parents == {"${BUILD_BASE}", "${BASE}"}


def test_build_copies_exactly_the_files_that_it_may_see_and_all_of_them_exist():
    ignore = (REPOSITORY / ".dockerignore").read_text().splitlines()
    allowed = [line[1:] for line in ignore if line.startswith("!")]
    assert "*" in ignore
    copied = [source for i in INSTRUCTIONS if i.name == "COPY" and not i.flags for source in i.words[:-1]]
    assert sorted(copied) == sorted(allowed)
    assert [source for source in copied if not (REPOSITORY / source).exists()] == []
    for name in (".venv/bin/python", ".git/config", "bench/__main__.py", "deploy/slurm/targets.py"):
        assert not [pattern for pattern in allowed if fnmatch(name, pattern) or name.startswith(f"{pattern}/")]


def test_images_get_nothing_but_the_environment_of_a_build_stage():
    between = [i for i in INSTRUCTIONS if i.name == "COPY" and i.flags]
    assert {i.flags[0].removeprefix("--from=") for i in between} == {"build", "build-dashboard", "build-trainer"}
    assert {i.words for i in between} == {("/opt/zmon", "/opt/zmon")}


def test_every_installation_uses_the_versions_of_the_file():
    pip = [" ".join(i.words) for i in INSTRUCTIONS if i.name == "RUN" and "bin/pip " in " ".join(i.words)]
    assert len(pip) == len(IMAGES)
    assert all(re.search(r"install '?\.(\[\w+\])?'?$", command) for command in pip)
    file = f"/src/{FILE.relative_to(REPOSITORY)}"
    for stage in ("build", "build-dashboard", "build-trainer"):
        settings = {word.partition("=")[0]: word.partition("=")[2] for row in words(stage, "ENV") for word in row}
        assert settings["PIP_CONSTRAINT"] == settings["PIP_BUILD_CONSTRAINT"] == file


def test_every_package_has_a_version_that_the_project_allows():
    """`make image-versions` writes the file again."""
    assert installed_versions().keys() <= PINS.keys()
    extras = PROJECT["optional-dependencies"]
    for text in (*PROJECT["dependencies"], *extras["dashboard"], *extras["trainer"]):
        requirement = Requirement(text)
        assert PINS[requirement.name.lower()] in requirement.specifier
    assert f"torch=={PINS['torch']}" in (REPOSITORY / "constraints.txt").read_text().splitlines()


@pytest.mark.parametrize("image", ["dashboard", "zmon"])
def test_entry_point_and_command_of_an_image_exist(image):
    entry, command = STAGES[image].instructions[-2:]
    assert (entry.name, entry.arguments) == ("ENTRYPOINT", ["zmon"])
    assert "zmon" in PROJECT["scripts"]
    assert command.name == "CMD"
    assert command.arguments == ["--help"] or command.arguments[0] in cli.commands


def test_module_that_the_trainer_runs_exists():
    python, flag, module, _ = STAGES["trainer"].instructions[-1].arguments
    assert (python, flag) == ("python", "-m")
    assert importlib.util.find_spec(module)
