"""The address of the API server, and the credentials of a pod.

Source: https://kubernetes.io/docs/tasks/run-application/access-api-from-pod/ (without a client library).
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import aiohttp

from zmon.errors import UsageError, ZmonError
from zmon.schema.http_config import Authorization, HttpConfig, TlsConfig
from zmon.web import http_client
from zmon.web.addresses import host_in_url

_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
_NEXT_STEP = "Run this in a pod that has a service account (kubeconfig files are not read)"


@dataclass(frozen=True)
class ApiServer:
    """An API server, and the credentials with which zmon asks it."""

    url: str
    http: HttpConfig

    def session(self) -> aiohttp.ClientSession:
        """Return a session. The token is read for each request, because the kubelet replaces it about once an hour."""
        return http_client.session(self.http)


def in_cluster(environ: Mapping[str, str] = os.environ, account: Path = _ACCOUNT) -> ApiServer:
    """Return the API server of the cluster that this process is a pod of. Raises UsageError outside of a cluster.

    `account`: the directory into which the kubelet writes token and authority of the pod's service account.
    """
    host, port = environ.get("KUBERNETES_SERVICE_HOST"), environ.get("KUBERNETES_SERVICE_PORT")
    if not host or not port:
        raise UsageError("no API server of Kubernetes", "KUBERNETES_SERVICE_HOST and _PORT are not set", _NEXT_STEP)
    http = HttpConfig(
        authorization=Authorization(credentials_file=account / "token"),
        tls_config=TlsConfig(ca_file=account / "ca.crt"),
    )
    try:
        http_client.check(http)
    except ZmonError as error:
        cause = f"{error}; automountServiceAccountToken of the pod may be false"
        raise UsageError("no service account of Kubernetes", cause, _NEXT_STEP) from error
    return ApiServer(f"https://{host_in_url(host)}:{port}", http)
