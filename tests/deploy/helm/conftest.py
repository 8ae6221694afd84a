"""Install the chart with the real Helm and the values of helm/zmon/ci; the tests read the objects that it creates."""

import functools
import json
import subprocess

import pytest
import yaml

from tests.deploy.helm.api_server import EVERYTHING, api_server
from tests.places import REPOSITORY

CHART = REPOSITORY / "helm/zmon"
PYTHON = REPOSITORY / ".venv-helm/bin/python"
ENGINE = REPOSITORY / "tests/deploy/helm/engine.py"
TIMEOUT_SECONDS = 120  # of a call of Helm
OLDEST, NEWEST = "1.27", "1.34"  # of Kubernetes: the chart's kubeVersion, and the newest that was tried
ISSUER = {"tls": {"certManager": {"issuer": {"name": "ca"}}}}
WITHOUT_OPERATOR = ("cert-manager.io/v1",)
CI = {path.name.removesuffix("-values.yaml"): path for path in sorted((CHART / "ci").glob("*-values.yaml"))}


def engine(*words, given=""):
    """Run engine.py, and return the finished process."""
    if not PYTHON.exists():
        pytest.skip("there is no .venv-helm: run scripts/setup-helm on a machine with Python 3.12")
    command = [PYTHON, ENGINE, *words]
    return subprocess.run(command, input=given, capture_output=True, text=True, timeout=TIMEOUT_SECONDS, check=False)


class Release(list):
    """The objects of Kubernetes that Helm creates, its error ("" if it worked), and the notes that it prints."""

    error = notes = ""

    def of(self, kind, name=None):
        """Return the one object of a kind, with this name if several have the kind."""
        (match,) = [thing for thing in self if thing["kind"] == kind and name in (None, thing["metadata"]["name"])]
        return match


def install(values, optional=EVERYTHING):
    """Install the chart with these values where these API groups of operators exist."""
    with api_server(optional) as server:
        done = engine("install", str(CHART), server.kubeconfig, given=json.dumps(values))
    release = Release(server.created)
    release.error = done.stderr.strip()
    if done.returncode == 0:
        release.notes = json.loads(done.stdout)["info"]["notes"]
    return release


@pytest.fixture(scope="session")
def installed():
    """Return a function that installs the chart with the values of one file, once in a session."""

    @functools.cache
    def install_once(name):
        release = install(yaml.safe_load(CI[name].read_text()))
        assert release.error == ""
        return release

    return install_once
