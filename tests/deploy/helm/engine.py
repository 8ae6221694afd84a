"""A program that calls the real Helm, by its library, and the schemas of Kubernetes. It needs the Python of .venv-helm.

engine.py lint CHART                  print what `helm lint` says, as JSON
engine.py install CHART KUBECONFIG    install a chart with the values on stdin (JSON); exit 1 with the error
engine.py validate VERSION            check the objects on stdin (a JSON list); print a JSON list of errors
"""

import asyncio
import json
import sys

NAMESPACE = "zmon"


def lint(chart: str) -> None:
    """Print the messages of `helm lint`."""
    import helm_sdkpy

    config = helm_sdkpy.Configuration(namespace=NAMESPACE, kubeconfig="apiVersion: v1\nkind: Config\n")  # asks nobody
    print(json.dumps(asyncio.run(helm_sdkpy.Lint(config).run(chart))))


def install(chart: str, kubeconfig: str) -> None:
    """Install a chart as the release `zmon`."""
    import helm_sdkpy

    config = helm_sdkpy.Configuration(namespace=NAMESPACE, kubeconfig=kubeconfig)
    values = json.load(sys.stdin)
    try:
        done = asyncio.run(helm_sdkpy.Install(config).run("zmon", chart, values=values, wait=False, timeout=60))
    except helm_sdkpy.HelmError as error:
        sys.exit(str(error))
    print(json.dumps(done, default=str))


def validate(version: str) -> None:
    """Print an error for each object that the API of this version of Kubernetes would refuse."""
    import kubernetes_validate

    errors = []
    for thing in json.load(sys.stdin):
        try:
            kubernetes_validate.validate(thing, version, strict=True)
        except kubernetes_validate.SchemaNotFoundError:
            errors.append(f"no schema: {thing['apiVersion']} {thing['kind']}")
        except kubernetes_validate.ValidationError as error:
            path = ".".join(map(str, error.path))
            errors.append(f"{thing['kind']} {thing['metadata']['name']}: {path}: {error.message}")
    print(json.dumps(errors))


if __name__ == "__main__":
    {"lint": lint, "install": install, "validate": validate}[sys.argv[1]](*sys.argv[2:])
