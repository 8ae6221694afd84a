"""Tests of the installed wheels: zmon alone, without streamlit, and beside other packages. They take minutes."""

import json
import os
import signal
import subprocess
import sys
import zipfile

import pytest

from tests.boxes import eventually
from zmon.errors import DISTRIBUTION, LABORATORY_DISTRIBUTION

pytestmark = [pytest.mark.slow, pytest.mark.e2e, pytest.mark.timeout(600)]  # packages are installed anew
FOREIGN = {  # the parts of a wheel that claim our import name and command, as `zmon` of the public index does
    "zmon/__init__.py": "",
    "zmon/cli.py": "def main(): ...",
    "zmon-1.5.0.dist-info/METADATA": "Metadata-Version: 2.1\nName: zmon\nVersion: 1.5.0\n",
    "zmon-1.5.0.dist-info/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    "zmon-1.5.0.dist-info/entry_points.txt": "[console_scripts]\nzmon = zmon.cli:main\n",
    "zmon-1.5.0.dist-info/RECORD": "",
}


@pytest.fixture(scope="module")
def environment(wheelhouse, tmp_path_factory):
    """Return the folder of an environment that has the wheel of zmon and what it requires."""
    folder = tmp_path_factory.mktemp("environment")
    subprocess.run([sys.executable, "-m", "venv", folder], check=True)
    pip(folder, "install", "--no-index", "--find-links", wheelhouse, DISTRIBUTION)
    return folder


def pip(environment, *arguments):
    """Run pip of an environment; return what it printed."""
    command = [environment / "bin/python", "-m", "pip", "--quiet", "--disable-pip-version-check", *arguments]
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, timeout=300).stdout


@pytest.fixture
def zmon(environment, tmp_path):
    """Return a function that starts `zmon …` outside the checkout."""
    clean = {key: value for key, value in os.environ.items() if not key.startswith(("ZMON_", "PYTHON"))}
    env = clean | {"ZMON_DATA_DIR": str(tmp_path / "data"), "ZMON_BOX_DIR": str(tmp_path / "boxes"), "COLUMNS": "300"}
    (tmp_path / "away").mkdir()

    def start(*arguments):
        return subprocess.Popen(
            [environment / "bin/zmon", *arguments], env=env, cwd=tmp_path / "away", text=True,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip

    return start


@pytest.fixture
def stack(zmon, tmp_path):
    """Yield `zmon up`, once it is ready."""
    process = zmon("up", "--ready-file", str(tmp_path / "ready"))
    assert eventually(lambda: (tmp_path / "ready").exists() or process.poll() is not None, 120)
    assert process.poll() is None, process.communicate()
    yield process
    process.kill()
    process.communicate()


def test_up_runs_without_streamlit_and_finds_its_pages_and_rules_in_the_wheel(zmon, stack, environment):
    output, _ = zmon("doctor", "--json").communicate(timeout=60)
    checks = {check["name"]: check for check in json.loads(output)["checks"]}
    assert checks["package"]["found"].endswith(f"is installed by {DISTRIBUTION}")
    assert checks["links in pages"]["armed"]
    rules = {name: check["found"] for name, check in checks.items() if name.startswith(("alert ", "rules "))}
    assert {"alert ZmonStall", "rules zmon-hosts", "rules zmon-panels-jobs"} <= rules.keys()
    assert [name for name, state in rules.items() if "not loaded" in state] == []
    stack.send_signal(signal.SIGINT)
    output, _ = stack.communicate(timeout=30)
    python = environment / "bin/python"
    wanted = f"streamlit is not installed. Run {python} -m pip install 'zmon-training[dashboard]', then start again"
    assert f"zmon: the dashboard does not run: {wanted}" in output
    assert stack.returncode == 0


def test_dashboard_without_streamlit_names_the_extra(zmon):
    process = zmon("dashboard")
    _, error = process.communicate(timeout=60)
    assert (process.returncode, error.count("\n")) == (1, 1)
    assert "pip install 'zmon-training[dashboard]'" in error


def test_page_in_a_message_exists(zmon, environment):
    _, error = zmon("agent", "--bind", "0.0.0.0").communicate(timeout=60)
    (page,) = environment.glob("lib/python*/site-packages/dashboards/docs/deploy/security.md")
    assert str(page) in error


def test_installing_an_extra_leaves_zmon_alone(environment):
    report = pip(environment, "install", "--dry-run", "--report", "-", f"{DISTRIBUTION}[top]")
    names = {item["metadata"]["name"].lower() for item in json.loads(report)["install"]}
    assert "textual" in names
    assert DISTRIBUTION not in names


def test_command_of_the_laboratory_names_its_package_and_runs_once_that_is_installed(zmon, environment, wheelhouse):
    process = zmon("drill", "--list")
    _, error = process.communicate(timeout=60)
    assert (process.returncode, error.count("\n")) == (2, 1)
    assert "zmon drill is not installed: the package zmon-lab has this command" in error
    pip(environment, "install", "--no-index", "--find-links", wheelhouse, LABORATORY_DISTRIBUTION)
    process = zmon("drill", "--list")
    output, _ = process.communicate(timeout=60)
    assert process.returncode == 0
    assert "rank-killed" in output


def test_program_of_the_same_import_name_is_reported_with_the_commands_that_help(
    zmon, environment, wheelhouse, tmp_path
):
    with zipfile.ZipFile(tmp_path / "zmon-1.5.0-py3-none-any.whl", "w") as wheel:
        for name, text in FOREIGN.items():
            wheel.writestr(name, text)
    pip(environment, "install", "--no-index", wheel.filename)
    process = zmon("doctor")  # this command is the program's own now, and imports the modules of zmon
    output, error = process.communicate(timeout=60)
    assert (process.returncode, output) == (1, "")
    assert error == (
        "zmon: the package zmon is installed here, another program with the same import name. "
        f"Run {environment}/bin/python -m pip uninstall zmon, "
        f"then install {DISTRIBUTION} again with --force-reinstall --no-deps.\n"
    )
    pip(environment, "uninstall", "--yes", "zmon")
    again = ("--force-reinstall", "--no-deps", "--no-index", "--find-links", wheelhouse)
    pip(environment, "install", *again, DISTRIBUTION)
    output, _ = zmon("doctor", "--json").communicate(timeout=60)
    (package,) = (check for check in json.loads(output)["checks"] if check["name"] == "package")
    assert package["armed"]
