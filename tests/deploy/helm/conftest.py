"""The objects that Helm creates from the chart, with the values of helm/zmon/ci."""

import json
import subprocess

import pytest
import yaml

from tests.deploy.helm.api_server import EVERYTHING, api_server
from tests.places import REPOSITORY

CHART = REPOSITORY / "helm/zmon"
PYTHON = REPOSITORY / ".venv-helm/bin/python"
ENGINE = REPOSITORY / "tests/deploy/helm/engine.py"
SECONDS = 120
OLDEST, NEWEST = "1.27", "1.34"  # of Kubernetes: the chart's kubeVersion, and the newest that was tried
ISSUER = {"tls": {"certManager": {"issuer": {"name": "ca"}}}}
WITHOUT_OPERATOR = ("cert-manager.io/v1",)
CI = {path.name.removesuffix("-values.yaml"): path for path in sorted((CHART / "ci").glob("*-values.yaml"))}


def engine(*words, given=""):
    """Run engine.py, and return the finished process."""
    if not PYTHON.exists():
        pytest.skip("there is no .venv-helm: run scripts/setup-helm on a machine with Python 3.12")
    command = [PYTHON, ENGINE, *words]
    return subprocess.run(command, input=given, capture_output=True, text=True, timeout=SECONDS, check=False)


def install(values, optional=EVERYTHING):
    """Install the chart; return the error ("" if it worked), the objects and the notes."""
    with api_server(optional) as server:
        done = engine("install", str(CHART), server.kubeconfig, given=json.dumps(values))
    notes = json.loads(done.stdout)["info"]["notes"] if done.returncode == 0 else ""
    return done.stderr.strip(), server.created, notes


def ci_values(name):
    """Return the values of one file of helm/zmon/ci."""
    return yaml.safe_load(CI[name].read_text())


class Objects(list):
    """Objects of Kubernetes, and the notes that Helm printed."""

    notes = ""

    def of(self, kind, name=None):
        """Return the one object of a kind, with this name if several have the kind."""
        (match,) = [thing for thing in self if thing["kind"] == kind and name in (None, thing["metadata"]["name"])]
        return match


@pytest.fixture(scope="session")
def installed():
    """Return a function that installs the chart with the values of one file, once in a session."""
    known = {}

    def objects(name):
        if name not in known:
            error, created, notes = install(ci_values(name))
            assert error == ""
            known[name] = Objects(created)
            known[name].notes = notes
        return known[name]

    return objects
